//! What operators see of a turn that has ended: one line in the log and the metrics. Counts, times and
//! ids only: nothing of what was said (invariant 14).

use crate::engine::TurnOutcome;
use uuid::Uuid;

/// Notes the end of a turn. Called once a turn.
pub(super) fn ended(turn_id: Uuid, outcome: &TurnOutcome) {
    let (finish, usage, telemetry) = (outcome.finish.as_str(), outcome.usage, outcome.telemetry);
    tracing::info!(
        turn.id = %turn_id,
        turn.finish = finish,
        turn.fallback = outcome.fallback_reason,
        turn.ms = telemetry.total_ms,
        turn.first_delta_ms = telemetry.first_token_ms,
        turn.rounds = telemetry.rounds,
        turn.parse_errors = telemetry.parse_errors,
        tools.run = telemetry.tools_run,
        tools.rejected = telemetry.tools_rejected,
        tools.overlap_ms = telemetry.overlap_ms,
        tokens.input = usage.input_tokens,
        tokens.output = usage.output_tokens,
        "turn ended"
    );
    metrics::counter!("tailrace_turns_total", "finish" => finish).increment(1);
    metrics::counter!("tailrace_tool_calls_total", "outcome" => "run").increment(telemetry.tools_run.into());
    metrics::counter!("tailrace_tool_calls_total", "outcome" => "rejected").increment(telemetry.tools_rejected.into());
    metrics::counter!("tailrace_tokens_total", "direction" => "input").increment(usage.input_tokens);
    metrics::counter!("tailrace_tokens_total", "direction" => "output").increment(usage.output_tokens);
    metrics::histogram!("tailrace_turn_seconds").record(seconds(telemetry.total_ms));
    metrics::histogram!("tailrace_tool_overlap_seconds").record(seconds(telemetry.overlap_ms));
    if let Some(ms) = telemetry.first_token_ms {
        metrics::histogram!("tailrace_first_delta_seconds").record(seconds(ms));
    }
}

fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}
