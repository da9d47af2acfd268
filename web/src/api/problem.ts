// What a refused request says (RFC 9457), and what it is when nobody answered.

export interface Problem {
  status: number;
  code: string;
  detail: string;
  [more: string]: unknown;
}

export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "ProblemError";
  }
}

export const OFFLINE: Problem = { status: 0, code: "offline", detail: "" };

export function problemOf(status: number, body: unknown): Problem {
  const b = (typeof body === "object" && body !== null ? body : {}) as Partial<Problem>;
  return {
    ...b,
    status,
    code: typeof b.code === "string" ? b.code : "http",
    detail: typeof b.detail === "string" ? b.detail : `HTTP ${status}`,
  };
}

export function asProblem(error: unknown): Problem {
  if (error instanceof ProblemError) return error.problem;
  return { ...OFFLINE, detail: error instanceof Error ? error.message : String(error) };
}

/** The route itself is not there, as opposed to the thing that it was asked for. */
export function isMissingRoute(problem: Problem): boolean {
  return problem.status === 501 || problem.status === 405 || (problem.status === 404 && /^there is no route\b/.test(problem.detail));
}
