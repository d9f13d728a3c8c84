import { type ConsoleWhatIf, type PlannerViewers, whatIfBodySchema } from '../../../console/index.ts';
import { ServeError } from '../../../errors/index.ts';
import { PlannerConfigError, PlannerStoreError, WhatIfRefusal } from '../../../planner/index.ts';
import { requireShape } from '../../../protocol/index.ts';
import { type BodyRoute, shownId } from '../route.ts';
import { readJson } from '../serve-inference.ts';
import { sendJson } from '../sinks/send.ts';

/** `POST /console/api/what-if`: asks the law of a planner what it would decide with other bounds. Nothing changes. */
export const whatIf: BodyRoute = {
  serve: async (deps, exchange) => {
    if (deps.console === undefined) throw new ServeError('not_implemented', 'This process has no console');
    const body = await readJson(exchange, deps);
    const answer = await answerQuestion(await deps.console.planner(), body, exchange.sink.closed);
    sendJson(exchange, 200, answer, { 'cache-control': 'no-store' });
  },
  body: { name: 'ConsoleQuestion', schema: whatIfBodySchema, example: () => ({ max_gpu_budget: 16 }) },
};

/** Answers the question of a body. @throws ServeError */
export async function answerQuestion(
  planners: Pick<PlannerViewers, 'ask'>,
  body: Parameters<typeof requireShape>[1],
  signal: AbortSignal,
): Promise<ConsoleWhatIf> {
  const question = requireShape(whatIfBodySchema, body);
  const answer = await planners.ask(question, signal).catch((thrown: unknown) => {
    throw failureOf(thrown);
  });
  if (answer !== undefined) return answer;
  const which = question.group === undefined ? '' : ` for ${shownId(question.group)}`;
  throw new ServeError('not_found', `No planner has decided anything${which} here`);
}

/** Returns the failure of a question as clients get it. */
function failureOf(thrown: unknown): unknown {
  if (thrown instanceof WhatIfRefusal) return new ServeError('not_implemented', `No answer: ${thrown.message}`);
  if (thrown instanceof PlannerStoreError) {
    return new ServeError('service_unavailable', `The planner's records: ${thrown.message}`, { cause: thrown });
  }
  if (thrown instanceof PlannerConfigError) return new ServeError('invalid_value', thrown.message, { cause: thrown });
  return thrown;
}
