//! How retrieved passages stand in a prompt: one writer and one reader, so that the `extractive`
//! provider and a real model see the same text.

/// A numbered passage as the model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    pub n: u32,
    pub title: String,
    pub text: String,
}

const OPEN: &str = "[";

/// `[1] Title` on a line of its own, the text indented by one space a line, a blank line between passages.
pub fn render(passages: &[Passage]) -> String {
    let mut out = String::new();
    for p in passages {
        if !out.is_empty() {
            out.push('\n');
        }
        let title = p.title.split_whitespace().collect::<Vec<_>>().join(" ");
        out.push_str(&format!("{OPEN}{}] {title}\n", p.n));
        for line in p.text.lines() {
            out.push(' ');
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The passages in `text`, in order; text around them is skipped.
pub fn parse(text: &str) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if let Some((n, title)) = head(line) {
            found.push(Passage { n, title: title.to_owned(), text: String::new() });
            open = true;
        } else if let (true, Some(body), Some(last)) = (open, line.strip_prefix(' '), found.last_mut()) {
            if !last.text.is_empty() {
                last.text.push('\n');
            }
            last.text.push_str(body);
        } else {
            open = false;
        }
    }
    found
}

fn head(line: &str) -> Option<(u32, &str)> {
    let (n, rest) = line.strip_prefix(OPEN)?.split_once(']')?;
    Some((n.parse().ok()?, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rendered_is_read_back() {
        let passages = vec![
            Passage { n: 1, title: "Leave policy".into(), text: "Two lines\n[9] not a head".into() },
            Passage { n: 12, title: "Other".into(), text: "x".into() },
        ];
        assert_eq!(parse(&format!("intro\n{}\nafter", render(&passages))), passages);
    }
}
