import { seededRandom } from '../../../../shared/clock/index.ts';
import { ResponseAssembler } from '../../../../shared/pipeline/answer/response-assembler.ts';
import type { Worker } from '../../../../shared/pipeline/index.ts';
import { RequestRun } from '../../../../shared/pipeline/run/run.ts';
import { StalledWorkers } from '../../../../shared/pipeline/run/stalled-workers.ts';
import { StreamWatch, type WatchedStream } from '../../../../shared/pipeline/run/stream-watch.ts';
import type { WorkerStream } from '../../../../shared/pipeline/run/worker-stream.ts';

import type { GenerationRequest } from '../../../../shared/protocol/index.ts';
import { Inhibition, SimpleRouter } from '../../../../shared/scheduler/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import {
  HandPlane,
  idleMeter,
  letterModel,
  model,
  preprocessNow,
  RecordingSink,
  request,
  type SeenCall,
} from '../fixtures.ts';

export interface Setup {
  readonly limit?: number;
  readonly tokensMax?: number;
  readonly workers?: number;
  readonly silenceMs?: number;
  readonly stallMs?: number;
  /** Worker `a` from the start. */
  readonly isStalled?: boolean;
}

export function start(
  asked: Partial<GenerationRequest> = {},
  { limit = 3, tokensMax, workers = 3, silenceMs, stallMs, isStalled }: Setup = {},
) {
  const clock = new VirtualClock();
  const plane = new HandPlane();
  const sink = new RecordingSink();
  const client = new AbortController();
  const moves: string[] = [];
  const unreachable: string[] = [];
  const overran: (string | undefined)[] = [];
  const failedWorkers = new Inhibition(clock, 5000);
  const router = new SimpleRouter<Worker>({ mode: 'round-robin', random: seededRandom(1), inhibition: failedWorkers });
  const served = model({ workers: model().workers.slice(0, workers) });
  router.setWorkers(served.pool, served.workers);
  const asking = request(asked);
  const prompt = preprocessNow(asking, served, letterModel);
  /** Requests in a stage now, and what was timed. */
  const stages = new Map<string, number>();
  const timed: string[] = [];
  const moveStage = (stage: string, by: number): unknown => stages.set(stage, (stages.get(stage) ?? 0) + by);
  const observer = {
    stage: (stage: string) => void timed.push(stage),
    stageEntered: (stage: string, phase = '') => void moveStage(`${stage} ${phase}`, 1),
    stageLeft: (stage: string, phase = '') => void moveStage(`${stage} ${phase}`, -1),
    detokenize: (_ms: number, tokens: number) => void timed.push(`${tokens} tokens`),
    migrationTook: (_model: string, type: string, outcome: string, ms: number) =>
      void timed.push(`${type} ${outcome} ${ms}`),
    template: () => {},
    tokenize: () => {},
    tokenizerCache: () => {},
    migrated: (_model: string, type: string) => void moves.push(type),
    migrationTooLong: () => void moves.push('too long'),
    overran: (_model: string, workerId: string | undefined) => void overran.push(workerId),
  };
  const probe = stallMs === undefined ? () => undefined : () => clock.sleep(3000).then(() => 'failed' as const);
  const stalledWorkers = new StalledWorkers({
    clock,
    probe,
    pauseMs: 1000,
    isListed: () => true,
    onRecovered: () => {},
    observer: {},
  });
  const stalled = new Set(isStalled ? ['a'] : []);
  const watched = { clock, probe, stalledWorkers };
  const context = {
    router,
    plane,
    clock,
    observer,
    streamWatch:
      (silenceMs ?? stallMs) === undefined
        ? undefined
        : new StreamWatch({ ...watched, silenceMsMax: silenceMs ?? 0, stallMs: stallMs ?? 0 }),
    stalledWorkers: {
      get size() {
        return stalled.size;
      },
      has: ({ id }: Worker) => stalled.has(id),
    },
    failedWorkers,
    fullWorkers: new Inhibition(clock, 1000),
    onUnreachable: (workerId: string) => void unreachable.push(workerId),
    migrationLimit: limit,
    migrationTokensMax: tokensMax,
    hold: undefined,
    busyOf: () => undefined,
    poolOf: () => served,
  };
  const answer = new ResponseAssembler(asking, prompt, letterModel, sink, idleMeter);
  new RequestRun(context, asking, served, prompt, answer, sink, client.signal).start();
  return {
    context,
    plane,
    stalled,
    stalledWorkers,
    sink,
    client,
    moves,
    unreachable,
    overran,
    stages,
    timed,
    clock,
    router,
    served,
  };
}

/** Returns the stream to which a call's output goes, as the watch of its worker sees it. */
export function streamOf({ sink }: SeenCall): WatchedStream {
  return sink as WorkerStream;
}

const accepted = new WeakSet<SeenCall>();

/** Takes the request on, as every worker does before it says anything. */
export function accept(call: SeenCall): void {
  if (accepted.has(call)) return;
  accepted.add(call);
  call.sink.accepted();
}

/** `text` as tokens of choice 0, in one engine output. */
export function say(call: SeenCall, text: string, choice = 0): void {
  accept(call);
  const { sink } = call;
  const ids = letterModel.tokenizer.encode(text);
  sink.tokens(choice, ids, 0, ids.length);
}

export function finish(call: SeenCall, reason: 'stop' | 'length' = 'length'): void {
  accept(call);
  const { sink } = call;
  sink.output({ finish_reason: reason });
  sink.end();
}
