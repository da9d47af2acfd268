// What happened, what it means, what to do: in the place where it happened.

import type { Problem } from "../api/problem";
import { t } from "../i18n";
import { Icon } from "./Icon";

export function ProblemBox({ problem, onRetry }: { problem: Problem; onRetry?: () => void }) {
  const offline = problem.status === 0;
  return (
    <div class="problem" role="alert">
      <Icon name="alert" />
      <div>
        <strong>{offline ? t("offlineTitle") : t("problemTitle")}</strong>
        <p>{offline ? t("offlineText") : problem.detail}</p>
      </div>
      {onRetry !== undefined && <button type="button" class="btn" onClick={onRetry}>{t("tryAgain")}</button>}
    </div>
  );
}
