//! What follows a round: another one, and with which words, or the turn's end. Pure.

use super::loop_guard::{Intervention, LoopGuard};
use super::nudge::{self, Nudge};
use crate::llm::Stop;

/// One turn's course.
#[derive(Clone, Debug)]
pub struct Course {
    max_continuations: u32,
    guard: LoopGuard,
    nudges: u32,
    /// The round that runs now, from 0.
    round: u32,
    without_tools: bool,
}

/// How a round went.
#[derive(Clone, Debug)]
pub struct RoundFacts {
    pub stop: Stop,
    /// Keys of its calls, see [`LoopGuard::round`]; `called`: whether there were any at all.
    pub keys: Vec<String>,
    pub called: bool,
    /// Whether any tool has run in the turn.
    pub ran_tools: bool,
    /// Its text without tool blocks.
    pub own: String,
}

/// What comes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The calls' results go to the model.
    Results(Option<Intervention>),
    Nudge(Nudge),
    End(End),
}

/// Why a turn has no further round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    /// The model wants more rounds than there are.
    MaxContinuations,
    /// The model repeats itself, even without tools.
    Loop,
}

impl Course {
    pub fn new(max_continuations: u32) -> Self {
        Self { max_continuations, guard: LoopGuard::default(), nudges: 0, round: 0, without_tools: false }
    }

    /// The round that runs now.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Whether no call of this round will run.
    pub fn is_last(&self) -> bool {
        self.without_tools || self.round >= self.max_continuations
    }

    /// Whether this round is not even offered tools.
    pub fn without_tools(&self) -> bool {
        self.without_tools
    }

    /// Decides, and counts the next round where there is one.
    pub fn after(&mut self, facts: RoundFacts) -> Next {
        let next = self.decide(facts);
        if !matches!(next, Next::End(_)) {
            self.round += 1;
        }
        next
    }

    fn decide(&mut self, facts: RoundFacts) -> Next {
        if !facts.called {
            let nudge = Nudge::for_round(facts.stop, facts.ran_tools, &facts.own);
            // The round without tools was the last chance.
            return match nudge.filter(|_| self.nudges < nudge::MOST && !self.without_tools) {
                Some(nudge) => {
                    self.nudges += 1;
                    Next::Nudge(nudge)
                }
                None => Next::End(End::Complete),
            };
        }
        if self.without_tools {
            return Next::End(End::Loop);
        }
        if self.round >= self.max_continuations {
            return Next::End(End::MaxContinuations);
        }
        match self.guard.round(facts.keys) {
            Some(Intervention::Stop) => Next::End(End::Loop),
            intervention => {
                self.without_tools = intervention == Some(Intervention::WithoutTools);
                Next::Results(intervention)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds as words: a call's name, `=` said something, `.` said nothing, `<` cut for length. What follows each:
    /// `r` results, `d` with a directive, `w` without tools, `n` a nudge, `c` `m` `l` an end.
    fn check(max_continuations: u32, rounds: &str, want: &str) {
        let mut course = Course::new(max_continuations);
        let mut ran = false;
        let mut got = String::new();
        for round in rounds.split(' ') {
            let called = round.chars().all(char::is_alphabetic);
            ran |= called && !course.is_last();
            let facts = RoundFacts {
                stop: if round == "<" { Stop::Length } else { Stop::End },
                keys: round.chars().filter(|c| c.is_alphabetic()).map(String::from).collect(),
                called,
                ran_tools: ran,
                own: if matches!(round, "=" | "<") { "text".into() } else { String::new() },
            };
            got.push(match course.after(facts) {
                Next::Results(None) => 'r',
                Next::Results(Some(Intervention::Direct)) => 'd',
                Next::Results(Some(_)) => 'w',
                Next::Nudge(_) => 'n',
                Next::End(End::Complete) => 'c',
                Next::End(End::MaxContinuations) => 'm',
                Next::End(End::Loop) => 'l',
            });
        }
        assert_eq!(got, want, "{max_continuations}: {rounds}");
    }

    #[test]
    fn a_turn_takes_its_course() {
        for (max, rounds, want) in [
            (3, "=", "c"),
            (3, ".", "c"),
            (3, "a =", "rc"),
            (3, "a b c d", "rrrm"),
            (0, "a", "m"),
            // Asked to answer, twice at most, also beyond the last continuation.
            (3, "a . =", "rnc"),
            (3, "a . . .", "rnnc"),
            (1, "a . . .", "rnnc"),
            (1, "a . b", "rnm"),
            (3, "a . b .", "rnrn"),
            (3, "< < <", "nnc"),
            (0, "< =", "nc"),
            // In circles.
            (9, "a a a =", "rdwc"),
            (9, "a a a a", "rdwl"),
            (9, "a b a b a", "rrdwl"),
            (9, "a a a .", "rdwc"),
            (3, "a a a a", "rdwl"),
            (9, "a a b b b =", "rdrdwc"),
            (2, "a a a", "rdm"),
        ] {
            check(max, rounds, want);
        }
    }
}
