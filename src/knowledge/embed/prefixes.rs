//! What models want to be written before a query and before a passage. Pure.
//! A model that was trained with such words finds less without them; one that was not finds less with them.

/// Words that stand for "what the model is known to want".
pub const AUTO: &str = "auto";

/// A part of a model's name, and what such models want: before a query, before a passage. The first that fits counts.
const KNOWN: &[(&str, &str, &str)] = &[
    ("e5-mistral", "", ""),
    ("e5", "query: ", "passage: "),
    ("bge-m3", "", ""),
    ("bge", "Represent this sentence for searching relevant passages: ", ""),
    ("nomic-embed", "search_query: ", "search_document: "),
    ("mxbai-embed", "Represent this sentence for searching relevant passages: ", ""),
    ("arctic-embed", "Represent this sentence for searching relevant passages: ", ""),
];

/// Before a query and before a passage, by the model's name alone.
pub fn known(model: &str) -> (&'static str, &'static str) {
    let model = model.to_ascii_lowercase();
    let last = model.rsplit(['/', ':']).next().unwrap_or(&model);
    let named = |part: &str| {
        last.split_once(part).is_some_and(|(before, _)| !before.ends_with(|c: char| c.is_ascii_alphanumeric()))
    };
    KNOWN.iter().find(|row| named(row.0)).map_or(("", ""), |row| (row.1, row.2))
}

/// The same, but for what the configuration says otherwise than [`AUTO`].
pub fn chosen(model: &str, query: &str, passage: &str) -> (String, String) {
    let (known_query, known_passage) = known(model);
    let choose = |said: &str, known: &str| if said == AUTO { known.to_owned() } else { said.to_owned() };
    (choose(query, known_query), choose(passage, known_passage))
}

/// The name that a collection records of a model: passages with other words before them are other vectors, so they
/// have another name.
pub fn marked(name: &str, model: &str, passage: &str) -> String {
    if passage == known(model).1 {
        return name.to_owned();
    }
    let hash = blake3::hash(passage.as_bytes()).to_hex();
    format!("{name}+{}", &hash[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_known_by_name() {
        for (model, query, passage) in [
            ("all-minilm-l6-v2", "", ""),
            ("openai:text-embedding-3-small", "", ""),
            ("/models/multilingual-e5-small", "query: ", "passage: "),
            ("intfloat/e5-base-v2", "query: ", "passage: "),
            ("e5-mistral-7b-instruct", "", ""),
            ("model-ae5f00", "", ""),
            ("BAAI/bge-m3", "", ""),
            ("openai:BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
            ("nomic-embed-text", "search_query: ", "search_document: "),
        ] {
            assert_eq!(known(model), (query, passage), "{model}");
        }
        assert_eq!(marked("e5-00", "e5", "passage: "), "e5-00");
        assert_ne!(marked("e5-00", "e5", ""), "e5-00");
        assert_eq!(chosen("e5", "auto", ""), ("query: ".to_owned(), String::new()));
        assert_eq!(chosen("x", "Q: ", "auto"), ("Q: ".to_owned(), String::new()));
    }
}
