//! The one gate: whether a call may run.
//!
//! Invariant: a call runs only if it is sealed, its tool is registered and allowed, its arguments are
//! valid, the turn has not run it before, and no cap is reached. A refused call costs nothing.

use crate::engine::arguments::ArgumentError;
use crate::engine::canonical;
use crate::engine::event::Rejection;
use crate::message::Arguments;
use std::collections::{BTreeSet, HashSet};

/// How much a turn may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rounds after the first; in the last of them nothing runs.
    pub max_continuations: u32,
    pub max_tools_per_round: u32,
    pub max_tools_total: u32,
}

/// One turn's gate.
#[derive(Debug)]
pub struct ToolBudget {
    limits: Limits,
    registered: BTreeSet<String>,
    allowed: BTreeSet<String>,
    /// Name and canonical arguments of what was admitted.
    seen: HashSet<String>,
    round: u32,
    /// Nothing runs in this round.
    closed: bool,
    in_round: u32,
    total: u32,
}

/// The gate's answer.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    Run(Ticket),
    Refuse {
        reason: Rejection,
        /// One line for the model and the user.
        message: String,
    },
}

/// What an admitted call has used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    key: String,
    round: u32,
}

impl ToolBudget {
    /// `registered`: every tool there is; `allowed`: those that this turn may use.
    pub fn new(
        limits: Limits,
        registered: impl IntoIterator<Item = String>,
        allowed: impl IntoIterator<Item = String>,
    ) -> Self {
        Self {
            limits,
            registered: registered.into_iter().collect(),
            allowed: allowed.into_iter().collect(),
            seen: HashSet::new(),
            round: 0,
            closed: false,
            in_round: 0,
            total: 0,
        }
    }

    /// `round`: 0 for the first LLM stream, then one per continuation.
    pub fn begin_round(&mut self, round: u32) {
        self.round = round;
        self.closed = false;
        self.in_round = 0;
    }

    /// Refuses every call of the round that has begun: it was offered no tools.
    pub fn close_round(&mut self) {
        self.closed = true;
    }

    /// Whether the next round would be refused everything, or could run nothing more.
    pub fn exhausted(&self) -> bool {
        self.total >= self.limits.max_tools_total
    }

    /// Decides over one sealed call. `arguments` as read against its tool's schema; for a tool that is
    /// not registered they are not looked at.
    ///
    /// Where several reasons hold, the first of these is given: in the last round everything is refused
    /// alike, whatever it is; then what is wrong with the call itself, from who it is for to what it
    /// says, because only that can be mended by calling differently; then that its result is there
    /// already; then the caps, the turn's before the round's, because a later round does not help
    /// against the former.
    pub fn admit(&mut self, name: &str, arguments: Result<&Arguments, &ArgumentError>) -> Admission {
        if self.round >= self.limits.max_continuations {
            return refuse(Rejection::MaxContinuations, "this is the last round: answer with what is there".into());
        }
        if self.closed {
            return refuse(Rejection::NotAllowed, "this round has no tools: answer with what is there".into());
        }
        if !self.registered.contains(name) {
            let known = self.allowed.intersection(&self.registered).map(String::as_str).collect::<Vec<_>>().join(", ");
            return refuse(Rejection::UnknownTool, format!("there is no tool {name}; the tools are: {known}"));
        }
        if !self.allowed.contains(name) {
            return refuse(Rejection::NotAllowed, format!("the tool {name} is not allowed here"));
        }
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(error) => return refuse(Rejection::BadArguments, error.to_string()),
        };
        let key = key(name, arguments);
        if self.seen.contains(&key) {
            return refuse(
                Rejection::Duplicate,
                format!("{name} was already called with these arguments in this turn"),
            );
        }
        let Limits { max_tools_total: total, max_tools_per_round: per_round, .. } = self.limits;
        if self.total >= total {
            return refuse(
                Rejection::CapTotal,
                format!("this turn has run {total} tools, the most it may (engine.max_tools_total)"),
            );
        }
        if self.in_round >= per_round {
            return refuse(
                Rejection::CapRound,
                format!("this round has run {per_round} tools, the most it may (engine.max_tools_per_round)"),
            );
        }
        self.seen.insert(key.clone());
        self.in_round += 1;
        self.total += 1;
        Admission::Run(Ticket { key, round: self.round })
    }

    /// Takes an admission back: the call turned out to be broken after it had been started.
    pub fn revoke(&mut self, ticket: &Ticket) {
        if self.seen.remove(&ticket.key) {
            self.release(ticket);
        }
    }

    /// The call was not allowed to run: it does not count, but need not be made again either. Said once a ticket.
    pub fn release(&mut self, ticket: &Ticket) {
        self.total -= 1;
        if ticket.round == self.round {
            self.in_round -= 1;
        }
    }
}

fn refuse(reason: Rejection, message: String) -> Admission {
    Admission::Refuse { reason, message }
}

/// The same for two calls exactly if they mean the same.
fn key(name: &str, arguments: &Arguments) -> String {
    canonical::key(name, arguments, canonical::quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::arguments::ArgumentSchema;
    use serde_json::{Value, json};

    const LIMITS: Limits = Limits { max_continuations: 3, max_tools_per_round: 3, max_tools_total: 5 };

    fn budget(limits: Limits) -> ToolBudget {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        ToolBudget::new(limits, names(&["search", "fetch", "rm"]), names(&["search", "fetch", "ghost"]))
    }

    fn arguments(value: Value) -> Arguments {
        value.as_object().cloned().unwrap()
    }

    fn bad() -> ArgumentError {
        ArgumentSchema::compile(&json!({"required": ["q"]})).unwrap().read_native("{}").unwrap_err()
    }

    /// `None` where the call runs.
    fn ask(budget: &mut ToolBudget, name: &str, value: Value) -> Option<Rejection> {
        match budget.admit(name, Ok(&arguments(value))) {
            Admission::Run(_) => None,
            Admission::Refuse { reason, message } => {
                assert!(!message.is_empty() && !message.contains('\n'));
                Some(reason)
            }
        }
    }

    #[test]
    fn each_reason_is_given_in_its_place() {
        use Rejection::{BadArguments, Duplicate, NotAllowed, UnknownTool};
        let mut budget = budget(LIMITS);
        for (name, arguments, want) in [
            ("nope", Ok(json!({"q": 1})), Some(UnknownTool)),
            ("nope", Err(bad()), Some(UnknownTool)),
            ("ghost", Ok(json!({"q": 1})), Some(UnknownTool)),
            ("rm", Err(bad()), Some(NotAllowed)),
            ("search", Err(bad()), Some(BadArguments)),
            ("search", Ok(json!({"q": 1})), None),
            ("search", Ok(json!({"q": 1})), Some(Duplicate)),
            ("fetch", Ok(json!({"q": 1})), None),
            ("search", Ok(json!({"q": "1"})), None),
            ("search", Ok(json!({"q": 1})), Some(Duplicate)),
        ] {
            let arguments = arguments.map(|value| value.as_object().cloned().unwrap());
            let got = match budget.admit(name, arguments.as_ref()) {
                Admission::Run(_) => None,
                Admission::Refuse { reason, .. } => Some(reason),
            };
            assert_eq!(got, want, "{name} {arguments:?}");
        }
    }

    #[test]
    fn caps_hold_and_refused_calls_do_not_count() {
        use Rejection::{CapRound, CapTotal, MaxContinuations, UnknownTool};
        let mut budget = budget(LIMITS);
        let mut n = 0;
        let mut next = |budget: &mut ToolBudget, name: &str| {
            n += 1;
            ask(budget, name, json!({ "n": n }))
        };
        for (round, name, want) in [
            (0, "nope", Some(UnknownTool)),
            (0, "search", None),
            (0, "search", None),
            (0, "search", None),
            (0, "search", Some(CapRound)),
            (1, "search", None),
            (1, "nope", Some(UnknownTool)),
            (1, "search", None),
            (1, "search", Some(CapTotal)),
            (2, "search", Some(CapTotal)),
            (3, "search", Some(MaxContinuations)),
            (3, "nope", Some(MaxContinuations)),
        ] {
            if round != budget.round {
                budget.begin_round(round);
            }
            assert_eq!(next(&mut budget, name), want, "round {round}");
        }
        assert!(budget.exhausted());
    }

    #[test]
    fn a_call_refused_by_a_cap_may_run_in_a_later_round() {
        let mut budget = budget(Limits { max_tools_per_round: 1, ..LIMITS });
        assert_eq!(ask(&mut budget, "search", json!({"q": 1})), None);
        assert_eq!(ask(&mut budget, "search", json!({"q": 2})), Some(Rejection::CapRound));
        budget.begin_round(1);
        assert_eq!(ask(&mut budget, "search", json!({"q": 2})), None);
    }

    #[test]
    fn a_closed_round_runs_nothing_and_the_next_one_is_open() {
        let mut budget = budget(LIMITS);
        budget.close_round();
        assert_eq!(ask(&mut budget, "search", json!({"q": 1})), Some(Rejection::NotAllowed));
        budget.begin_round(1);
        assert_eq!(ask(&mut budget, "search", json!({"q": 1})), None);
    }

    #[test]
    fn both_caps_reached_names_the_one_that_a_later_round_cannot_help() {
        let mut budget = budget(Limits { max_tools_per_round: 1, max_tools_total: 1, ..LIMITS });
        assert_eq!(ask(&mut budget, "search", json!({"q": 1})), None);
        assert_eq!(ask(&mut budget, "search", json!({"q": 2})), Some(Rejection::CapTotal));
    }

    #[test]
    fn without_continuations_the_first_round_is_the_last() {
        let mut budget = budget(Limits { max_continuations: 0, ..LIMITS });
        assert_eq!(ask(&mut budget, "search", json!({"q": 1})), Some(Rejection::MaxContinuations));
    }

    #[test]
    fn a_revoked_call_does_not_count_and_may_come_again() {
        let mut budget = budget(Limits { max_tools_per_round: 1, max_tools_total: 1, ..LIMITS });
        let call = arguments(json!({"q": 1}));
        let Admission::Run(ticket) = budget.admit("search", Ok(&call)) else { panic!("refused") };
        budget.revoke(&ticket);
        budget.revoke(&ticket);
        let Admission::Run(ticket) = budget.admit("search", Ok(&call)) else { panic!("refused") };
        budget.begin_round(1);
        budget.revoke(&ticket);
        assert_eq!(ask(&mut budget, "search", json!({"q": 1})), None);
    }

    #[test]
    fn a_released_call_does_not_count_and_does_not_come_again() {
        let mut budget = budget(Limits { max_tools_total: 1, ..LIMITS });
        let call = arguments(json!({"q": 1}));
        let Admission::Run(ticket) = budget.admit("search", Ok(&call)) else { panic!("refused") };
        budget.release(&ticket);
        assert_eq!(ask(&mut budget, "search", json!({"q": 1})), Some(Rejection::Duplicate));
        assert_eq!(ask(&mut budget, "search", json!({"q": 2})), None);
    }

    #[test]
    fn arguments_are_compared_by_meaning() {
        for (one, other, same) in [
            (
                json!({"a": 1, "b": {"c": 2, "d": [1, {"x": 1, "y": 2}]}}),
                json!({"b": {"d": [1, {"y": 2, "x": 1}], "c": 2}, "a": 1}),
                true,
            ),
            (json!({"a": [1, 2]}), json!({"a": [2, 1]}), false),
            (json!({"a": 1}), json!({"a": "1"}), false),
            (json!({"a": "x", "b": 1}), json!({"a": "x\",\"b\":1"}), false),
            (json!({}), json!({}), true),
        ] {
            let mut budget = budget(LIMITS);
            assert_eq!(ask(&mut budget, "search", one.clone()), None);
            let want = same.then_some(Rejection::Duplicate);
            assert_eq!(ask(&mut budget, "search", other.clone()), want, "{one} {other}");
        }
    }
}
