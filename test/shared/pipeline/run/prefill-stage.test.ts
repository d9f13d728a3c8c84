import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { ModelCard } from '../../../../shared/discovery/index.ts';
import { workerError } from '../../../../shared/errors/index.ts';
import { ResponseAssembler } from '../../../../shared/pipeline/answer/response-assembler.ts';
import { type Worker, workerSetsOf } from '../../../../shared/pipeline/index.ts';
import { type Bypass, PrefillStage } from '../../../../shared/pipeline/run/prefill-stage.ts';
import { RequestRun } from '../../../../shared/pipeline/run/run.ts';
import { StalledWorkers } from '../../../../shared/pipeline/run/stalled-workers.ts';
import { StreamWatch } from '../../../../shared/pipeline/run/stream-watch.ts';
import {
  decodeEngineRequest,
  type EngineFinishReason,
  type GenerationRequest,
  RELEASE_PREFILL,
} from '../../../../shared/protocol/index.ts';
import type { SimpleRouterMode } from '../../../../shared/router/index.ts';
import { BYPASS_ANNOTATION, Inhibition, SimpleRouter } from '../../../../shared/scheduler/index.ts';
import type { WorkerLabels } from '../../../../shared/telemetry/index.ts';
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
  worker,
} from '../fixtures.ts';
import { accept } from './start-run.ts';

const PARAMS = { kv_transfer_params: { remote_host: 'h', remote_port: 1, remote_block_ids: [[1, 2]] } };
const RENDEZVOUS = { rendezvous: { host: '10.0.0.1', port: 8998 } };

interface Setup {
  readonly prefills?: readonly Worker[];
  readonly decodes?: readonly Worker[];
  readonly limit?: number;
  readonly isEnforced?: boolean;
  readonly bypasses?: Bypass;
  readonly mode?: SimpleRouterMode;
  readonly silenceMs?: number;
  /** Silence after which workers are sent a canary, which passes at those that are not in `frozen`. */
  readonly stallMs?: number;
  readonly frozen?: ReadonlySet<string>;
  readonly busy?: ReadonlySet<string>;
}

function start(asked: Partial<GenerationRequest> = {}, setup: Setup = {}) {
  const { prefills = [worker('p1'), worker('p2')], decodes = [worker('d1'), worker('d2')], limit = 3 } = setup;
  const clock = new VirtualClock();
  const plane = new HandPlane();
  const sink = new RecordingSink();
  const client = new AbortController();
  const seen = {
    moves: [] as string[],
    alone: 0,
    transferMs: [] as number[],
    reused: [] as [string, number][],
    served: [] as (readonly WorkerLabels[])[],
  };
  const failedWorkers = new Inhibition(clock, 5000);
  const mode = setup.mode ?? 'round-robin';
  const router = new SimpleRouter<Worker>({ mode, random: seededRandom(1), inhibition: failedWorkers });
  const pool = { key: 'sum', role: 'decode', blockSizeTokens: 16 } as const;
  const card = { ...model().card, needs: [['prefill']] } as ModelCard;
  const split =
    prefills.length === 0 ? {} : { prefill: { pool: { ...pool, role: 'prefill' as const }, workers: prefills } };
  const served = model({ card, pool, workers: decodes, ...split });
  for (const set of workerSetsOf(served)) router.setWorkers(set.pool, set.workers);
  const observer = {
    stage: () => {},
    template: () => {},
    tokenize: () => {},
    tokenizerCache: () => {},
    migrated: (_model: string, type: string) => void seen.moves.push(type),
    migrationTooLong: () => {},
    decodedAlone: () => void seen.alone++,
    kvTransferred: (ms: number) => void seen.transferMs.push(ms),
    reused: ({ role }: { role: string }, tokens: number) => void seen.reused.push([role, tokens]),
  };
  const { silenceMs: silenceMsMax = 0, stallMs = 0, frozen } = setup;
  const probe = ({ id }: Worker) =>
    frozen === undefined ? undefined : Promise.resolve(frozen.has(id) ? ('failed' as const) : ('passed' as const));
  const stalled = new StalledWorkers({
    clock,
    probe,
    pauseMs: 1000,
    isListed: () => true,
    onRecovered: () => {},
    observer: {},
  });
  const watched = { clock, probe, stalledWorkers: stalled, silenceMsMax, stallMs };
  const streamWatch = silenceMsMax + stallMs > 0 ? new StreamWatch(watched) : undefined;
  const shared = {
    router,
    plane,
    clock,
    observer,
    streamWatch,
    stalledWorkers: stalled,
    failedWorkers,
    fullWorkers: new Inhibition(clock, 1000),
    busyOf: () => setup.busy,
  };
  const prefill = new PrefillStage({
    ...shared,
    random: seededRandom(2),
    isEnforced: setup.isEnforced ?? false,
    bypasses: setup.bypasses,
    modelNow: () => served,
  });
  const context = {
    ...shared,
    prefill,
    migrationLimit: limit,
    migrationTokensMax: undefined,
    hold: undefined,
    poolOf: () => served,
  };
  const asking = request(asked);
  const prompt = preprocessNow(asking, served, letterModel);
  const meter = { ...idleMeter, servedBy: (...workers: readonly WorkerLabels[]) => void seen.served.push(workers) };
  const answer = new ResponseAssembler(asking, prompt, letterModel, sink, meter);
  const begin = (signal: AbortSignal): void =>
    new RequestRun(context, asking, served, prompt, answer, sink, signal).start();
  const again = (): void => begin(new AbortController().signal); // of another client
  begin(client.signal);
  return { plane, sink, client, seen, clock, router, again };
}

function to({ transport }: SeenCall): string {
  return 'memory' in transport ? transport.memory : '';
}

function read({ request: { id, body, tokenIds } }: SeenCall) {
  return decodeEngineRequest(id, body as Record<string, unknown>, tokenIds);
}

function say(call: SeenCall, text: string): void {
  accept(call);
  const { sink } = call;
  const ids = letterModel.tokenizer.encode(text);
  sink.tokens(0, ids, 0, ids.length);
}

function usage(cached: number, prompt = 3) {
  return { prompt_tokens: prompt, completion_tokens: 1, prompt_tokens_details: { cached_tokens: cached } };
}

/** A prefill stage that ends as it should. */
function hand(call: SeenCall, params: unknown = PARAMS): void {
  call.sink.output({
    token_ids: [1],
    finish_reason: 'length',
    disaggregated_params: params,
    completion_usage: usage(2),
  });
  call.sink.end();
}

function finish(call: SeenCall, text: string): void {
  say(call, text);
  call.sink.output({ finish_reason: 'length', completion_usage: usage(0) });
  call.sink.end();
}

const lost = () => workerError('Disconnected', 'socket closed');
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('a request with prefill workers', () => {
  it('gets one token there, and its answer from a decode worker that knows where the blocks are', async () => {
    const { plane, sink, seen, clock } = start({ stop: { max_tokens: 7, min_tokens: 3 }, sampling: { n: 1 } });
    const first = await plane.seen(1);
    expect(to(first)).toBe('p1');
    expect(read(first).stop).toMatchObject({ max_tokens: 1, min_tokens: 1 });
    expect(read(first).input).toEqual({ kind: 'tokens', tokenIds: Uint32Array.of(1, 2, 3) });
    hand(first);
    const second = await plane.seen(2);
    expect(to(second)).toBe('d1');
    expect(second.request.id).toBe(first.request.id);
    const decoding = read(second);
    expect(decoding.stop).toMatchObject({ max_tokens: 7, min_tokens: 3 });
    expect(decoding.prefillResult).toEqual({
      disaggregated_params: PARAMS,
      prompt_tokens_details: { cached_tokens: 2 },
    });
    expect(decoding.routing.prefill_worker_id).toBe('p1');
    expect(decoding.routerConfigOverride).toEqual({
      overlap_score_credit: 0,
      assume_kv_reuse: false,
      track_prefill_tokens: false,
    });
    await clock.advance(40);
    finish(second, 'hello');
    expect(sink.shown).toBe('hello');
    expect(sink.ended?.usage).toEqual({ promptTokens: 3, completionTokens: 5, cachedTokens: 2 });
    expect(seen).toMatchObject({ moves: [], alone: 0, transferMs: [40], reused: [['prefill', 2]] });
    expect(plane.calls).toHaveLength(2);
  });

  it('tells the client which workers it has', async () => {
    const { plane, sink } = start({ extraFields: ['worker_id'] });
    hand(await plane.seen(1));
    await plane.seen(2);
    expect(sink.events).toEqual([{ kind: 'worker', prefillWorkerId: 'p1', decodeWorkerId: 'd1' }]);
  });

  it('is counted at the rank of each', async () => {
    const ranked = (id: string): Worker => ({ ...worker(id), dataParallelSize: 8 });
    const routing = { prefill_dp_rank: 3, dp_rank: 5 };
    const asked = { routing, extraFields: ['worker_id'] };
    const { plane, seen, sink } = start(asked, { prefills: [ranked('p1')], decodes: [ranked('d1')] });
    hand(await plane.seen(1));
    await plane.seen(2);
    expect(seen.served).toEqual([
      [
        { workerId: 'p1', dpRank: 3, workerType: 'prefill' },
        { workerId: 'd1', dpRank: 5, workerType: 'decode' },
      ],
    ]);
    const ids = { prefillWorkerId: 'p1', prefillDpRank: 3, decodeWorkerId: 'd1', decodeDpRank: 5 };
    expect(sink.events).toEqual([{ kind: 'worker', ...ids }]);
  });

  it.each(['eos', 'end_turn', 'tool_calls', 'safety'])(
    'ends with the first token when the model does, in whatever word: %s',
    async (word) => {
      const { plane, sink } = start({ extraFields: ['worker_id'] });
      const { sink: first } = await plane.seen(1);
      const finish_reason = word as EngineFinishReason; // a worker may write any word
      first.output({ token_ids: [0], finish_reason, disaggregated_params: PARAMS, completion_usage: usage(0) });
      first.end();
      await settled();
      expect(sink.ended).toMatchObject({ finished: true, usage: { completionTokens: 1 } });
      expect(sink.finished).toMatchObject({ reason: 'stop', text: '' });
      expect(plane.calls).toHaveLength(1);
    },
  );

  it('has its prompt computed where it is decoded when the prefill says that there are no blocks', async () => {
    const { plane, sink } = start();
    hand(await plane.seen(1), {});
    const second = await plane.seen(2);
    expect(read(second).prefillResult).toBeUndefined();
    expect(read(second).routerConfigOverride).toBeUndefined();
    finish(second, 'hi');
    expect(sink.shown).toBe('hi');
  });

  it('goes to the pinned prefill worker, and to the pinned decode worker', async () => {
    const { plane } = start({ routing: { prefill_worker_id: 'p2', decode_worker_id: 'd2' } });
    const first = await plane.seen(1);
    expect(to(first)).toBe('p2');
    hand(first);
    expect(to(await plane.seen(2))).toBe('d2');
  });

  it('must name its prefill worker in mode direct', async () => {
    const { sink } = start({ routing: { decode_worker_id: 'd1' } }, { mode: 'direct' });
    await settled();
    expect(sink.failure?.message).toContain('x-dynamo-prefill-instance-id');
  });

  it('keeps to the namespace in which its prompt was computed', async () => {
    const stranger: Worker = { ...worker('d1'), scope: { namespace: 'other', component: 'backend' } };
    const { plane } = start({}, { decodes: [stranger, worker('d2')] });
    hand(await plane.seen(1));
    expect(to(await plane.seen(2))).toBe('d2');
  });

  const inZone = (id: string, zone: string): Worker => ({ ...worker(id), taints: [`dynamo.topology/zone=${zone}`] });
  const bound = (id: string, zone: string, preferredWeight?: number): Worker => ({
    ...inZone(id, zone),
    kvTransfer: { taint: `dynamo.topology/zone=${zone}`, preferredWeight },
  });

  it("stays in the topology domain of its prefill worker where that is required, the client's own wishes kept", async () => {
    const decodes = [inZone('d1', 'a'), inZone('d2', 'b')];
    const asked = { routing: { routing_constraints: { preferred_taints: { fast: 1 } } } };
    const { plane } = start(asked, { prefills: [bound('p2', 'b')], decodes });
    const first = await plane.seen(1);
    expect(read(first).routing.routing_constraints).toEqual({ preferred_taints: { fast: 1 } });
    hand(first);
    const second = await plane.seen(2);
    expect(to(second)).toBe('d2');
    expect(read(second).routing.routing_constraints).toEqual({
      required_taints: ['dynamo.topology/zone=b'],
      preferred_taints: { fast: 1 },
    });
  });

  it('weighs the topology domain of its prefill worker where that is preferred', async () => {
    const { plane } = start({}, { prefills: [bound('p1', 'b', 0.85)], decodes: [inZone('d1', 'a')] });
    hand(await plane.seen(1));
    const second = await plane.seen(2);
    expect(to(second)).toBe('d1');
    expect(read(second).routing.routing_constraints).toEqual({
      preferred_taints: { 'dynamo.topology/zone=b': 0.85 },
    });
  });

  it('goes to no prefill worker whose blocks no decode worker may fetch', async () => {
    const prefills = [bound('p1', 'a'), bound('p2', 'b')];
    const { plane } = start({}, { prefills, decodes: [inZone('d2', 'b')] });
    expect(to(await plane.seen(1))).toBe('p2');
    const pinned = start(
      { routing: { decode_worker_id: 'd1' } },
      { prefills, decodes: [inZone('d1', 'a'), inZone('d2', 'b')] },
    );
    expect(to(await pinned.plane.seen(1))).toBe('p1');
  });

  it('has its prompt computed where it is decoded when every prefill worker is out of reach, unless that is ruled out', async () => {
    const setup = { prefills: [bound('p1', 'a')], decodes: [inZone('d2', 'b')] };
    const { plane, seen } = start({}, setup);
    const alone = await plane.seen(1);
    expect(to(alone)).toBe('d2');
    expect(read(alone).routing.routing_constraints).toBeUndefined();
    expect(seen.alone).toBe(1);
    const { sink } = start({}, { ...setup, isEnforced: true });
    await settled();
    expect(sink.failure).toMatchObject({ code: 'service_unavailable' });
  });

  it('computes its prompt anew, with what came since, when the decode worker is lost in mid-stream', async () => {
    const { plane, sink, seen } = start({ stop: { max_tokens: 9 } });
    hand(await plane.seen(1));
    const second = await plane.seen(2);
    say(second, 'hel');
    second.sink.fail(lost());
    const third = await plane.seen(3);
    expect(to(third)).toBe('p2');
    expect(read(third).input).toEqual({ kind: 'tokens', tokenIds: Uint32Array.of(1, 2, 3, 8, 5, 12) });
    expect(read(third).prefillResult).toBeUndefined();
    hand(third);
    const fourth = await plane.seen(4);
    expect(to(fourth)).toBe('d2');
    expect(read(fourth).stop.max_tokens).toBe(6);
    finish(fourth, 'lo');
    expect(sink.shown).toBe('hello');
    expect(seen.moves).toEqual(['ongoing_request']);
  });
});

describe('a worker of a split fleet that wants to be rid of a request', () => {
  it('decodes on while the prompt is computed anew, until another one has it', async () => {
    const { plane, sink, seen, clock } = start({ stop: { max_tokens: 9 } });
    hand(await plane.seen(1));
    const second = await plane.seen(2);
    say(second, 'hel');
    second.sink.moveAsked?.();
    const third = await plane.seen(3);
    expect(to(third)).toBe('p2');
    expect(read(third).input).toEqual({ kind: 'tokens', tokenIds: Uint32Array.of(1, 2, 3, 8, 5, 12) });
    say(second, 'xy');
    hand(third);
    const fourth = await plane.seen(4);
    expect([to(second), to(fourth), second.log]).toEqual(['d1', 'd2', ['pause']]);
    expect(read(fourth)).toMatchObject({ stop: { max_tokens: 6 }, prefillResult: { disaggregated_params: PARAMS } });
    finish(fourth, 'lo');
    expect([sink.shown, second.log, seen.moves]).toEqual(['hello', ['pause', 'kill: moved'], ['ongoing_request']]);
    await clock.advance(60_000);
    expect(plane.calls).toHaveLength(4); // no blocks are left to release
  });

  it('decodes on when the prompt cannot be computed for another one, whose blocks are released', async () => {
    const { plane, sink, seen } = start({ stop: { max_tokens: 9 } }, { isEnforced: true });
    hand(await plane.seen(1));
    const second = await plane.seen(2);
    say(second, 'hel');
    second.sink.moveAsked?.();
    hand(await plane.seen(3));
    const fourth = await plane.seen(4);
    fourth.sink.fail(lost());
    const release = await plane.seen(5);
    expect(read(release).annotations).toContain(RELEASE_PREFILL);
    expect(second.log).toEqual(['pause', 'resume']);
    say(second, 'lo');
    second.sink.output({ finish_reason: 'length' });
    second.sink.end();
    expect([sink.shown, seen.moves]).toEqual(['hello', []]);
  });

  it('computes the prompt to its end if no other worker could, and otherwise gives it up', async () => {
    const alone = start({}, { prefills: [worker('p1')] });
    const only = await alone.plane.seen(1);
    accept(only);
    only.sink.moveAsked?.();
    hand(only);
    finish(await alone.plane.seen(2), 'hi');
    expect([alone.sink.shown, only.log, alone.seen.moves]).toEqual(['hi', [], []]);

    const { plane, sink, seen } = start();
    const first = await plane.seen(1);
    accept(first);
    first.sink.moveAsked?.();
    const second = await plane.seen(2);
    expect([to(first), first.log, to(second)]).toEqual(['p1', ['kill: moved'], 'p2']);
    hand(second);
    finish(await plane.seen(3), 'hi');
    expect([sink.shown, seen.moves]).toEqual(['hi', ['new_request']]);
  });
});

describe('a prefill that fails', () => {
  it('is tried at another prefill worker, then at the decode worker', async () => {
    const { plane, sink, seen } = start();
    (await plane.seen(1)).sink.fail(lost());
    const second = await plane.seen(2);
    expect(to(second)).toBe('p2');
    second.sink.fail(lost());
    const third = await plane.seen(3);
    expect(to(third)).toBe('d1');
    expect(read(third).prefillResult).toBeUndefined();
    finish(third, 'hi');
    expect(sink.shown).toBe('hi');
    expect(seen).toMatchObject({ moves: ['new_request'], alone: 1 });
  });

  it.each([
    ['without a move left', { limit: 0 }, lost()],
    ['with a failure that would be the same elsewhere', {}, workerError('Internal', 'out of luck')],
  ])('is done at the decode worker %s', async (_, setup, error) => {
    const { plane, seen } = start({}, setup);
    (await plane.seen(1)).sink.fail(error);
    expect(to(await plane.seen(2))).toBe('d1');
    expect(seen).toMatchObject({ moves: [], alone: 1 });
  });

  it.each([
    ['nothing at all', []],
    ['no parameters', [{ token_ids: [1], finish_reason: 'length' }]],
    ['an error', [{ finish_reason: { error: 'no' } }]],
    ['that it was cancelled', [{ token_ids: [1], finish_reason: 'cancelled', disaggregated_params: PARAMS }]],
    ['that it was aborted', [{ token_ids: [1], finish_reason: 'abort' as 'cancelled', disaggregated_params: PARAMS }]],
  ] as const)('may be one that ends and says %s', async (_, outputs) => {
    const { plane, seen } = start({}, { limit: 0 });
    const { sink } = await plane.seen(1);
    for (const output of outputs) sink.output(output);
    sink.end();
    expect(to(await plane.seen(2))).toBe('d1');
    expect(seen.alone).toBe(1);
  });

  it('has its worker passed over until that has reported, where it is full and another one is left', async () => {
    const { plane, clock, again } = start({}, { limit: 1 });
    const prefillOf = async (at: number): Promise<string> => to(await plane.seen(at));
    (await plane.seen(1)).sink.fail(workerError('WorkerOverloaded'));
    expect(await prefillOf(2)).toBe('p2');
    for (const at of [3, 4, 5]) {
      again();
      expect(await prefillOf(at)).toBe('p2');
    }
    await clock.advance(1001);
    again();
    again();
    expect(new Set([await prefillOf(6), await prefillOf(7)])).toEqual(new Set(['p1', 'p2']));
  });

  it('listens to its client once, however many workers fail', async () => {
    const prefills = Array.from({ length: 15 }, (_, at) => worker(`p${at}`));
    const { plane } = start({}, { prefills, limit: 20 });
    for (let at = 1; at <= 15; at++) (await plane.seen(at)).sink.fail(workerError('CannotConnect'));
    expect(to(await plane.seen(16))).toBe('d1');
  });

  it('is asked for all the same where every prefill worker is full: one of them says so, or has a place again', async () => {
    const { plane, again } = start({}, { prefills: [worker('p1')], limit: 0 });
    (await plane.seen(1)).sink.fail(workerError('WorkerOverloaded'));
    expect(to(await plane.seen(2))).toBe('d1');
    again();
    expect(to(await plane.seen(3))).toBe('p1');
  });

  it('fails the request where prefill workers are enforced, overload as overload', async () => {
    const setup = { isEnforced: true, limit: 0 };
    const { plane, sink } = start({}, setup);
    (await plane.seen(1)).sink.fail(workerError('ResourceExhausted'));
    await settled();
    expect(sink.failure?.code).toBe('server_overloaded');
    expect(plane.calls).toHaveLength(1);
  });

  it('fails the request when it is the client who is wrong', async () => {
    const { plane, sink } = start();
    (await plane.seen(1)).sink.fail(workerError('InvalidArgument', 'no such token'));
    await settled();
    expect(sink.failure).toMatchObject({ code: 'invalid_value', message: 'no such token' });
    expect(plane.calls).toHaveLength(1);
  });

  it('may be one that never says anything', async () => {
    const { plane, clock } = start({}, { silenceMs: 500 });
    const first = await plane.seen(1);
    await clock.advance(1000);
    expect(first.log).toEqual(['kill']);
    expect(to(await plane.seen(2))).toBe('p2');
  });

  it('may be one whose worker falls silent before its blocks are fetched', async () => {
    const { plane, sink, clock, seen } = start({}, { stallMs: 1000, frozen: new Set(['p1']) });
    hand(await plane.seen(1));
    const second = await plane.seen(2);
    await clock.advance(2000);
    expect(second.log).toEqual(['kill']);
    const release = await plane.seen(3);
    expect(to(release)).toBe('p1'); // should it come back
    expect(read(release).annotations).toContain(RELEASE_PREFILL);
    const again = await plane.seen(4);
    expect(to(again)).toBe('p2');
    hand(again);
    finish(await plane.seen(5), 'hello');
    expect(sink.shown).toBe('hello');
    expect(seen.moves).toEqual(['new_request']);
    await clock.advance(60_000);
    expect(plane.calls).toHaveLength(5);
  });

  it('does not count as failed while its worker lives, however long its blocks wait, nor after they were fetched', async () => {
    const waits = start({}, { stallMs: 1000, frozen: new Set() });
    hand(await waits.plane.seen(1));
    await waits.plane.seen(2);
    await waits.clock.advance(60_000);
    expect(waits.plane.calls).toHaveLength(2);
    const frozen = new Set<string>();
    const fetched = start({}, { stallMs: 1000, frozen });
    hand(await fetched.plane.seen(1));
    say(await fetched.plane.seen(2), 'h');
    frozen.add('p1');
    await fetched.clock.advance(60_000);
    expect(fetched.plane.calls).toHaveLength(2);
  });

  it('is not begun where every decode worker is busy', async () => {
    const full = start({}, { busy: new Set(['d1', 'd2']) });
    await settled();
    expect(full.plane.calls).toHaveLength(0);
    expect(full.sink.failure).toMatchObject({ code: 'server_overloaded' });
    const { plane } = start({}, { busy: new Set(['d1']) });
    hand(await plane.seen(1));
    expect(to(await plane.seen(2))).toBe('d2');
  });

  it('is counted where there is no prefill worker at all', async () => {
    const { plane, seen } = start({}, { prefills: [] });
    expect(to(await plane.seen(1))).toBe('d1');
    expect(seen.alone).toBe(1);
  });

  it('fails the request where there is none at all and they are enforced', async () => {
    const { plane, sink } = start({}, { prefills: [], isEnforced: true });
    await settled();
    expect(sink.failure?.code).toBe('service_unavailable');
    expect(plane.calls).toHaveLength(0);
  });

  it('may show as blocks that the decode worker cannot get: the prompt is computed anew', async () => {
    const { plane, sink } = start({}, { decodes: [worker('d1')] });
    hand(await plane.seen(1));
    (await plane.seen(2)).sink.fail(workerError('BackendProtocol', 'no such blocks'));
    const third = await plane.seen(3);
    expect(to(third)).toMatch(/p[12]/); // released, then asked anew
    const again = await plane.seen(4);
    hand(again);
    const last = await plane.seen(5);
    expect(to(last)).toBe('d1');
    finish(last, 'hi');
    expect(sink.shown).toBe('hi');
  });
});

describe('a client that leaves', () => {
  it('during the prefill starts no decode worker, and has the prefill worker stop', async () => {
    const { plane, client } = start();
    const first = await plane.seen(1);
    client.abort();
    await settled();
    expect(first.log).toEqual(['stop']);
    first.sink.end();
    await settled();
    expect(plane.calls).toHaveLength(1);
  });

  it('as the prefill ends has its blocks released', async () => {
    const { plane, client } = start();
    const first = await plane.seen(1);
    client.abort();
    hand(first);
    const release = await plane.seen(2);
    expect(to(release)).toBe('p1');
    expect(read(release)).toMatchObject({
      annotations: ['release_prefill'],
      prefillResult: { disaggregated_params: PARAMS },
    });
  });

  it('before the decode worker has said anything has the blocks released, and the decode worker stop', async () => {
    const { plane, client } = start();
    hand(await plane.seen(1));
    const second = await plane.seen(2);
    client.abort();
    expect(second.log).toEqual(['kill']);
    expect(to(await plane.seen(3))).toBe('p1');
  });

  it('later leaves the prefill worker alone', async () => {
    const { plane, client } = start();
    hand(await plane.seen(1));
    say(await plane.seen(2), 'he');
    client.abort();
    await settled();
    expect(plane.calls).toHaveLength(2);
  });
});

describe('engines that meet at a rendezvous', () => {
  const prefills = [
    { ...worker('p1'), ...RENDEZVOUS },
    { ...worker('p2'), ...RENDEZVOUS },
  ];

  it('get the same room at once', async () => {
    const { plane, sink } = start({}, { prefills });
    const [first, second] = [await plane.seen(1), await plane.seen(2)];
    expect([to(first), to(second)]).toEqual(['p1', 'd1']);
    const { bootstrapInfo } = read(second);
    expect(bootstrapInfo).toMatchObject({ bootstrap_host: '10.0.0.1', bootstrap_port: 8998 });
    expect(read(first).bootstrapInfo).toEqual(bootstrapInfo);
    expect(read(second).prefillResult).toBeUndefined();
    hand(first);
    await settled();
    finish(second, 'hi');
    expect(sink.shown).toBe('hi');
    expect(sink.ended?.usage.cachedTokens).toBe(2);
  });

  it('get a room of the prefill rank', async () => {
    const ranked: Worker = { ...worker('p1'), ...RENDEZVOUS, dataParallelSize: 8 };
    const { plane } = start({ routing: { prefill_dp_rank: 3 } }, { prefills: [ranked] });
    const { bootstrapInfo } = read(await plane.seen(2));
    expect(BigInt(bootstrapInfo?.bootstrap_room ?? 0) % 8n).toBe(3n);
  });

  it('are both asked anew when the prefill fails', async () => {
    const { plane, sink, seen } = start({}, { prefills });
    const [first, second] = [await plane.seen(1), await plane.seen(2)];
    first.sink.fail(lost());
    await settled();
    expect(second.log).toEqual(['kill']);
    const [third, fourth] = [await plane.seen(3), await plane.seen(4)];
    expect([to(third), to(fourth)]).toEqual(['p2', 'd2']);
    expect(read(fourth).bootstrapInfo?.bootstrap_room).not.toBe(read(second).bootstrapInfo?.bootstrap_room);
    finish(fourth, 'hi');
    expect(sink.shown).toBe('hi');
    expect(seen.moves).toEqual(['new_request']);
  });

  it('fall back to the decode worker when nothing may move', async () => {
    const { plane, seen } = start({ sampling: { n: 2 } }, { prefills });
    const [first, second] = [await plane.seen(1), await plane.seen(2)];
    expect(read(first).sampling.n).toBeUndefined();
    expect(read(second).sampling.n).toBe(2);
    first.sink.fail(lost());
    const third = await plane.seen(3);
    expect(read(third).bootstrapInfo).toBeUndefined();
    expect(seen).toMatchObject({ moves: [], alone: 1 });
  });

  it('are both told when the client leaves', async () => {
    const { plane, client } = start({}, { prefills });
    const [first, second] = [await plane.seen(1), await plane.seen(2)];
    client.abort();
    expect([first.log, second.log]).toEqual([['stop'], ['kill']]);
  });
});

describe('conditional disaggregation', () => {
  it('marks the requests that pass the prefill workers by', async () => {
    const { plane, seen } = start({}, { bypasses: async () => true });
    const first = await plane.seen(1);
    expect(to(first)).toBe('d1');
    expect(read(first).annotations).toEqual([BYPASS_ANNOTATION]);
    expect(seen.alone).toBe(0);
  });

  it('takes a mark of the client for nothing', async () => {
    const { plane } = start({ annotations: [BYPASS_ANNOTATION, 'mine'] }, { bypasses: async () => false });
    const first = await plane.seen(1);
    expect(to(first)).toBe('p1');
    expect(read(first).annotations).toEqual(['mine']);
    hand(first);
    expect(read(await plane.seen(2)).routerConfigOverride).toEqual({
      assume_kv_reuse: false,
      track_prefill_tokens: false,
    });
  });
});
