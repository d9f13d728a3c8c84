import { toServeError } from '../../../errors/index.ts';
import { textMemory } from '../../../protocol/generation/index.ts';
import { type DecodedCompletions, decodeCompletions, parseCompletionsBody } from '../../../protocol/openai/index.ts';
import type { RequestMeter } from '../../../telemetry/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { InferenceCall } from '../inference-call.ts';
import { readJson } from '../read-json.ts';
import type { CompletionsParts } from './completions-parts.ts';
import { CompletionsStream } from './completions-stream.ts';
import { CompletionsUnary } from './completions-unary.ts';
import { decodeContext, openForModel, requireRoute, requireServed, requireService } from './gates.ts';
import { RunningUsage } from './running-usage.ts';

/** `POST /v1/completions`. Answers through the exchange's sink; never rejects. */
export async function serveCompletions(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const call = new InferenceCall(deps, exchange, 'completions');
  try {
    requireService(deps);
    requireRoute(deps, 'Completions');
    const json = await readJson(exchange, deps);
    const body = parseCompletionsBody(json);
    const { meter, primaryName } = openForModel(call, body.model, body.stream === true);
    const decoded = decodeCompletions(body, decodeContext(call));
    call.identify(decoded.requests[0]!); // a batch has at least one prompt
    requireServed(deps, body.model, 'Completions');
    const names = {
      id: `cmpl-${decoded.id}`,
      created: Math.floor(call.receivedMs / 1000),
      model: primaryName,
    };
    const echoes = await echoedTexts(deps, body.model, decoded);
    for (const echo of echoes ?? []) call.room.take(textMemory(echo) * decoded.choicesPerPrompt); // each choice begins with it
    generateAll(call, { names, decoded, echoes }, meter);
  } catch (thrown) {
    call.refuse(toServeError(thrown));
  }
}

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
