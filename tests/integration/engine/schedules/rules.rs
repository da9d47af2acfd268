//! What has to hold whatever happened.

use super::super::*;
use super::{LIMITS, Played, TURN};
use std::collections::{HashMap, HashSet};

/// What the paused clock is exact to.
const TICK: Duration = Duration::from_millis(1);

impl Played {
    pub fn check(&self) {
        self.one_outcome_for_each_call();
        self.rounds_open_and_close();
        self.text_is_conserved();
        self.limits_hold();
        self.results_are_in_order();
        self.it_ended_in_time();
    }

    pub fn say(&self, what: &str) -> String {
        format!("seed {}: {what}\n{:#?}\n{:#?}", self.seed, self.outcome, self.events)
    }

    fn one_outcome_for_each_call(&self) {
        let (mut started, mut settled) = (HashMap::new(), HashSet::new());
        for event in &self.events {
            match event {
                RunnerEvent::ToolStart(s) => {
                    assert!(started.insert(s.call_id.clone(), s.depth).is_none(), "{}", self.say("started twice"));
                    assert!(!settled.contains(&s.call_id), "{}", self.say("started after its end"));
                }
                RunnerEvent::ToolResult(s) => {
                    assert!(settled.insert(s.call_id.clone()), "{}", self.say("two outcomes"));
                    let ran = !matches!(s.outcome, ToolOutcome::Rejected { .. });
                    let known = started.get(&s.call_id) == Some(&s.depth);
                    // A call that waited for the stream's end or for the user was cut before it began.
                    let cut = matches!(&s.outcome, ToolOutcome::Failed { error } if !error.contains("crashed"));
                    assert!(!ran || known || cut, "{}", self.say("an outcome without a start"));
                }
                _ => {}
            }
        }
        assert!(started.keys().all(|id| settled.contains(id)), "{}", self.say("a call without an outcome"));
        let agents = |wanted: fn(&RunnerEvent) -> bool| self.events.iter().filter(|e| wanted(e)).count();
        assert_eq!(
            agents(|e| matches!(e, RunnerEvent::SubAgentStart { .. })),
            agents(|e| matches!(e, RunnerEvent::SubAgentEnd { .. })),
            "{}",
            self.say("a sub-agent without an end")
        );
    }

    fn rounds_open_and_close(&self) {
        let mut open = None;
        let mut next = 0;
        for event in &self.events {
            match event {
                RunnerEvent::Round { round } => {
                    assert!(open.is_none() && *round == next, "{}", self.say("rounds are out of order"));
                    open = Some(*round);
                    next += 1;
                }
                RunnerEvent::RoundEnd { round, .. } => {
                    assert_eq!(open.take(), Some(*round), "{}", self.say("a round ends that is not open"));
                }
                RunnerEvent::Delta(text) if !text.starts_with("⚠️") => {
                    assert!(open.is_some(), "{}", self.say("text outside of a round"));
                }
                RunnerEvent::TurnEnd { .. } | RunnerEvent::TurnStart { .. } => {
                    panic!("{}", self.say("the turn's own frames are not the engine's"));
                }
                _ => {}
            }
        }
        assert!(open.is_none(), "{}", self.say("a round without an end"));
        assert_eq!(next, self.outcome.telemetry.rounds, "{}", self.say("rounds are miscounted"));
    }

    /// Whatever the model said is shown, in order, and nothing else (invariant 1).
    fn text_is_conserved(&self) {
        let shown: String = self
            .events
            .iter()
            .filter_map(|e| if let RunnerEvent::Delta(t) = e { Some(t.as_str()) } else { None })
            .filter(|t| !t.starts_with("⚠️ LLM error"))
            .collect();
        assert_eq!(shown, self.text, "{}", self.say("text was lost or made up"));
    }

    fn limits_hold(&self) {
        let telemetry = self.outcome.telemetry;
        assert!(telemetry.rounds <= 1 + LIMITS.max_continuations + 2, "{}", self.say("too many rounds"));
        assert!(telemetry.tools_run <= LIMITS.max_tools_total, "{}", self.say("too many tools"));
        let mut in_round: HashMap<u32, u32> = HashMap::new();
        let mut seen = HashSet::new();
        for event in &self.events {
            let RunnerEvent::ToolStart(s) = event else { continue };
            if s.depth == 0 {
                let count = in_round.entry(s.round).or_default();
                *count += 1;
                // One that was started and taken back does not count.
                let taken_back = self.taken_back();
                assert!(*count <= LIMITS.max_tools_per_round + taken_back, "{}", self.say("too many in a round"));
                assert!(s.round < LIMITS.max_continuations, "{}", self.say("a tool ran in the last round"));
                let again = !seen.insert(format!("{} {}", s.name, json!(s.arguments)));
                assert!(!again || taken_back > 0, "{}", self.say("the same call ran twice"));
            }
        }
        let sends: Vec<_> = self.called.iter().filter(|(name, _)| name == "send").collect();
        let distinct: HashSet<_> = sends.iter().map(|(_, arguments)| json!(arguments).to_string()).collect();
        // A sub-agent is a turn of its own: it may do the same once more.
        let turns = 1 + self.events.iter().filter(|e| matches!(e, RunnerEvent::SubAgentStart { .. })).count();
        assert!(sends.len() <= distinct.len() * turns, "{}", self.say("a side effect happened twice"));
    }

    fn taken_back(&self) -> u32 {
        let mut started = HashSet::new();
        let mut count = 0;
        for event in &self.events {
            match event {
                RunnerEvent::ToolStart(s) => drop(started.insert(s.call_id.clone())),
                RunnerEvent::ToolResult(s) if matches!(s.outcome, ToolOutcome::Rejected { .. }) => {
                    count += u32::from(started.contains(&s.call_id));
                }
                _ => {}
            }
        }
        count
    }

    /// Native results stand behind the calls they answer, in the order of the calls.
    fn results_are_in_order(&self) {
        for messages in &self.requests {
            for pair in messages.windows(2) {
                let [ChatMessage::Assistant(said), ChatMessage::ToolResults(results)] = pair else { continue };
                let asked: Vec<_> = said.tool_calls.iter().map(|c| &c.id).collect();
                let answered: Vec<_> = results.iter().map(|r| &r.call_id).collect();
                assert_eq!(asked, answered, "{}", self.say("results are out of order"));
            }
        }
    }

    fn it_ended_in_time(&self) {
        if self.cancelled {
            assert!(self.took <= TICK, "{}", self.say("a cancel was not heard at once"));
            assert_eq!(self.outcome.finish, Finish::Cancelled, "{}", self.say("cancelled, but not said"));
        }
        assert!(self.took <= TURN + TICK, "{}", self.say("longer than a turn may take"));
    }
}
