//! When a model is asked to go on although it has stopped, and with which words. Pure.

use super::prompt_examples;
use crate::llm::Stop;

/// How often a turn asks. Each is a round of its own; `engine.max_continuations` bounds the rounds in which tools
/// run, so a turn has at most that many rounds after the first and these.
pub const MOST: u32 = 2;

/// Why it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nudge {
    /// Tools have run, and the round has no text of its own.
    Silent,
    /// The provider's limit of length cut the answer off.
    Length,
}

impl Nudge {
    /// What a round that called nothing deserves. `own`: its text without tool blocks.
    pub fn for_round(stop: Stop, ran_tools: bool, own: &str) -> Option<Self> {
        match stop {
            Stop::Length => Some(Self::Length),
            Stop::End | Stop::Tools if ran_tools && own.trim().is_empty() => Some(Self::Silent),
            Stop::End | Stop::Tools | Stop::Filter => None,
        }
    }

    /// For the model. `question`: repeated for models that learn from examples.
    pub fn message(self, question: Option<&str>, last: bool) -> String {
        let mut text = match (self, question) {
            (Self::Silent, Some(question)) => prompt_examples::ask_again(question),
            (Self::Silent, None) => "You have not answered yet. Write the answer to the user's question now, from the \
                                     results above; if they do not say it, say so."
                .to_owned(),
            (Self::Length, _) => "Your answer was cut off because it became too long. Go on exactly where it stopped, \
                                  repeat nothing, and come to an end. A tool call that was cut off did not run."
                .to_owned(),
        };
        if last {
            text.push_str(" This is the last round: no further call will run.");
        }
        text
    }

    /// For the user: title and message.
    pub fn notice(self) -> (&'static str, &'static str) {
        match self {
            Self::Silent => ("Asked to answer", "The model had called tools and said nothing; it was asked to answer."),
            Self::Length => {
                ("Asked to go on", "The answer had reached the model's limit of length; it was asked to go on.")
            }
        }
    }
}

/// What a round said beside its calls. `blocks`: the bytes of its sealed blocks, in order. Blocks that could not
/// be read, and thinking aloud at the beginning, are not text of its own either.
pub fn own_text(text: &str, blocks: impl IntoIterator<Item = (usize, usize)>) -> String {
    let mut own = String::with_capacity(text.len());
    let mut at = 0;
    for (start, end) in blocks {
        if start >= at && end >= start {
            own.push_str(text.get(at..start).unwrap_or_default());
            at = end;
        }
    }
    own.push_str(text.get(at..).unwrap_or_default());
    let said = without_thinking(&own);
    without_blocks(said)
}

fn without_thinking(text: &str) -> &str {
    match text.trim_start().strip_prefix("<think>") {
        Some(thought) => thought.split_once("</think>").map_or("", |(_, said)| said),
        None => text,
    }
}

fn without_blocks(text: &str) -> String {
    let mut own = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once("<tool") {
        own.push_str(before);
        if !tail.starts_with(|c: char| c.is_ascii_whitespace() || c == '>') {
            own.push_str("<tool");
            rest = tail;
            continue;
        }
        rest = match tail.split_once("</tool") {
            Some((_, tail)) => tail.split_once('>').map_or("", |(_, tail)| tail),
            None => "",
        };
    }
    own.push_str(rest);
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_continued_where_it_said_nothing_or_was_cut() {
        for (stop, ran, own, want) in [
            (Stop::End, true, "", Some(Nudge::Silent)),
            (Stop::Tools, true, " \n\t", Some(Nudge::Silent)),
            (Stop::End, false, "", None),
            (Stop::End, true, "Yes.", None),
            (Stop::Length, false, "Half an ans", Some(Nudge::Length)),
            (Stop::Length, true, "", Some(Nudge::Length)),
            (Stop::Filter, true, "", None),
        ] {
            assert_eq!(Nudge::for_round(stop, ran, own), want, "{stop:?} {ran} {own:?}");
        }
        assert!(Nudge::Silent.message(None, true).contains("no further call will run"));
        assert!(!Nudge::Length.message(None, false).contains("no further call"));
        assert!(Nudge::Silent.message(Some("When?"), false).contains("When?"));
    }

    #[test]
    fn blocks_and_thinking_are_not_text_of_its_own() {
        for (text, blocks, want) in [
            ("a <tool name=\"t\">{\"x\":\"</tool>\"}</tool> b", &[(2, 39)][..], "a  b"),
            ("<tool name=\"t\">{\"q\":1}</tool>\n", &[], "\n"),
            ("<tool name=\"t\">never closed", &[], ""),
            ("a <tools> b", &[], "a <tools> b"),
            ("<think>hm</think>\n", &[], "\n"),
            (" <think>hm", &[], ""),
            ("<think>hm</think>Yes", &[], "Yes"),
            ("é<tool >x</tool>ü", &[], "éü"),
        ] {
            assert_eq!(own_text(text, blocks.iter().copied()), want, "{text}");
        }
    }
}
