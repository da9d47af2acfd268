//! Requests that change something go on to their end when their client does not wait for it: what is written in two
//! steps is never left between them.

use super::problem::Problem;
use super::state::AppState;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Routes that change nothing although they are not asked with GET, or that see to it themselves: a turn begins on a
/// task of its own, and whoever waits for its end may stop it by going away.
const FOLLOW_THEIR_CLIENT: [&str; 2] = ["/api/v1/chat", "/api/v1/collections/{collection}/search"];

pub async fn to_the_end(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let follows = path.is_none_or(|path| FOLLOW_THEIR_CLIENT.contains(&path.as_str()));
    if follows || request.method().is_safe() {
        return next.run(request).await;
    }
    let answer = app.shutdown.spawn(tracing::Instrument::in_current_span(next.run(request)));
    answer.await.unwrap_or_else(|error| Problem::internal(&error).into_response())
}
