//! Tokens of a model whose tokenizer nobody has here: counted so that it is rather too many than too few.
//!
//! A run of up to three Latin letters, of up to two digits, each sign of punctuation, each run of spaces or line
//! ends, and two bytes of anything else are one token each. English prose counts half as much again as the
//! tokenizers of today make of it, Chinese about a third more; random letters are counted a little short.

use super::super::EmbedError;
use std::sync::{Arc, OnceLock};
use tokenizers::Tokenizer;

/// As a tokenizer: bytes as the byte-level pre-tokenizer writes them (a space is `Ġ`, a line end `Ċ`), cut into tokens,
/// all of them unknown.
const DEFINITION: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        {"type": "Split", "behavior": "Isolated", "invert": false, "pattern":
            {"Regex": "Ġ?[A-Za-z]{1,3}|Ġ?[0-9]{1,2}|Ġ+|Ċ+|[^!-~ĠĊ]{1,2}|[!-~]"}}
    ]},
    "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}
}"#;

/// One for the process.
pub(super) fn tokenizer() -> Result<Arc<Tokenizer>, EmbedError> {
    static MADE: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    if let Some(made) = MADE.get() {
        return Ok(Arc::clone(made));
    }
    let made = Tokenizer::from_bytes(DEFINITION).map_err(|error| EmbedError::Failed(error.to_string()))?;
    Ok(Arc::clone(MADE.get_or_init(|| Arc::new(made))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_rather_too_many() {
        let tokens = |text: &str| tokenizer().unwrap().encode(text, true).unwrap().len();
        for (text, count) in [
            ("", 0),
            ("the", 1),
            ("knowledge base", 5),
            ("in 2024", 3),
            ("a,b", 3),
            ("a  b", 3),
            ("one\n\ntwo", 3),
            ("é", 1),
            ("数据库", 5),
            ("🚢", 2),
        ] {
            assert_eq!(tokens(text), count, "{text:?}");
        }
        // What OpenAI's cl100k_base makes of the same sentences.
        for (text, real) in [
            ("The weather is lovely today, and nobody on the bank seemed to notice.", 15),
            ("fn read_line(&mut self) -> io::Result<Option<String>> { todo!() }", 19),
            ("Die Rechnung wurde im März bezahlt.", 11),
        ] {
            assert!(tokens(text) > real && tokens(text) < 3 * real, "{text:?}: {}", tokens(text));
        }
    }

    #[test]
    fn offsets_lie_in_the_text() {
        let text = "Über 数据库: ok";
        let encoding = tokenizer().unwrap().encode(text, true).unwrap();
        let last = encoding.get_offsets().last().unwrap();
        assert_eq!(last.1, text.len());
        assert!(encoding.get_offsets().iter().all(|(start, end)| start < end && *end <= text.len()));
    }
}
