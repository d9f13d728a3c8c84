import { textMemory } from '../../../protocol/generation/index.ts';
import { type DecodedCompletions, decodeCompletions, parseCompletionsBody } from '../../../protocol/openai/index.ts';
import type { RequestMeter } from '../../../telemetry/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import { decodeContext, requireServed } from '../gates.ts';
import type { InferenceCall } from '../inference-call.ts';
import { serveInference } from '../serve-inference.ts';
import type { CompletionsParts } from './completions-parts.ts';
import { CompletionsStream } from './completions-stream.ts';
import { CompletionsUnary } from './completions-unary.ts';
import { RunningUsage } from './running-usage.ts';

/** `POST /v1/completions`. */
export const serveCompletions = serveInference({
  endpoint: 'completions',
  isOffWithoutModel: true,
  parse: parseCompletionsBody,
  answer: async (call, body, { meter, primaryName }) => {
    const decoded = decodeCompletions(body, decodeContext(call));
    call.identify(decoded.requests[0]!); // a batch has at least one prompt
    requireServed(call.deps, body.model, 'completions');
    const names = { id: `cmpl-${decoded.id}`, created: call.createdSecs, model: primaryName };
    const echoes = await echoedTexts(call.deps, body.model, decoded);
    for (const echo of echoes ?? []) call.room.take(textMemory(echo) * decoded.choicesPerPrompt); // each choice begins with it
    generateAll(call, { names, decoded, echoes }, meter);
  },
});

/** What `echo` repeats of each prompt: of token ids, the text that they stand for. */
async function echoedTexts(
  { pipeline }: HttpAppDeps,
  model: string,
  { echoes }: DecodedCompletions,
): Promise<readonly string[] | undefined> {
  if (echoes === undefined) return undefined;
  return Promise.all(echoes.map((echo) => (typeof echo === 'string' ? echo : pipeline.textOf(model, echo))));
}

/** Starts every prompt of the batch under one signal. */
function generateAll(call: InferenceCall, answered: Omit<CompletionsParts, 'cancel'>, meter: RequestMeter): void {
  const { decoded } = answered;
  const { requests } = decoded;
  const parts = { ...answered, cancel: (): void => work.cancel() };
  const answer = requests[0]?.stream === true ? new CompletionsStream(call, parts) : new CompletionsUnary(call, parts);
  const work = call.watch(answer);
  for (const [index, request] of requests.entries()) {
    if (work.signal.aborted) return; // an earlier prompt failed at once
    const running = decoded.isContinuous ? new RunningUsage(meter) : undefined;
    const sink = answer.prompt(index, running);
    call.deps.pipeline.generate(request, request.stream ? sink : call.kept(sink), {
      signal: work.signal,
      meter: running ?? meter,
    });
  }
}
