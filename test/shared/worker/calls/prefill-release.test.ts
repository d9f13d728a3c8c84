import { describe, expect, it } from 'vitest';
import type { Engine } from '../../../../shared/engines/index.ts';
import type { ServeError } from '../../../../shared/errors/index.ts';
import type { IncomingCall } from '../../../../shared/planes/index.ts';
import { type EngineRequest, encodeEngineRequest, RELEASE_PREFILL } from '../../../../shared/protocol/index.ts';
import { servePrefillRelease } from '../../../../shared/worker/calls/calls-under-way.ts';

const PARAMS = { kv_transfer_params: { remote_request_id: 'r1#0' } };

/** A call of `annotations` as it arrives, and what becomes of it. */
function arrive(annotations: readonly string[], engine: Partial<Engine>) {
  const record: EngineRequest = {
    id: 'r1',
    model: 'm',
    input: { kind: 'tokens', tokenIds: new Uint32Array(1) },
    stop: {},
    sampling: {},
    output: {},
    eosTokenIds: [],
    routing: {},
    annotations,
    prefillResult: { disaggregated_params: PARAMS },
  };
  const log: string[] = [];
  const call = {
    id: 'release-r1',
    ...encodeEngineRequest(record),
    end: () => void log.push('end'),
    fail: (error: ServeError) => void log.push(error.code),
  } as unknown as IncomingCall;
  return { isServed: servePrefillRelease(engine as Engine, call), log };
}

describe('a call that gives up a prefill', () => {
  it('tells the engine what to free', () => {
    const freed: unknown[] = [];
    const engine = { releasePrefill: ({ prefillResult }: EngineRequest) => void freed.push(prefillResult) };
    expect(arrive([RELEASE_PREFILL], engine)).toEqual({ isServed: true, log: ['end'] });
    expect(freed).toEqual([{ disaggregated_params: PARAMS }]);
  });

  it('ends where the engine cannot be told', () => {
    expect(arrive([RELEASE_PREFILL], {})).toEqual({ isServed: true, log: ['end'] });
  });

  it('fails when the engine does', () => {
    const engine = {
      releasePrefill: () => {
        throw new Error('no');
      },
    };
    expect(arrive([RELEASE_PREFILL], engine)).toEqual({ isServed: true, log: ['internal_error'] });
  });

  it('is distinguished from every other call', () => {
    expect(arrive(['mine'], {})).toEqual({ isServed: false, log: [] });
  });
});
