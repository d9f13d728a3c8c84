import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { workerError } from '../../../../shared/errors/index.ts';
import { endpoint, openDiscovered } from '../discovered.ts';

let fleet: Awaited<ReturnType<typeof openDiscovered>>;
beforeEach(async () => {
  fleet = await openDiscovered({ stallMs: 10_000 });
});
afterEach(() => fleet.close());

const addressesOf = () => fleet.plane.calls.map(({ transport }) => transport.memory);

describe('an instance whose address moves to a standby', () => {
  it('gets new requests at its new address, while streams at the old one go on', async () => {
    await fleet.register('a');
    const { call, sink } = await fleet.ask();
    call.sink.accepted();
    await fleet.put(endpoint('a', 'prod-1', 'standby'));
    await fleet.ask({ id: 'r2' });
    call.sink.tokens(0, [4], 0, 1);
    expect(addressesOf()).toEqual(['a', 'standby']);
    expect([sink.shown, sink.failure]).toEqual(['d', undefined]);
  });

  it('continues a stream there once the old process is gone', async () => {
    await fleet.register('a');
    const { call, sink } = await fleet.ask();
    call.sink.accepted();
    call.sink.tokens(0, [4], 0, 1);
    await fleet.put(endpoint('a', 'prod-1', 'standby'));
    call.sink.fail(workerError('Disconnected'));
    const next = await fleet.plane.seen(2);
    expect(addressesOf()).toEqual(['a', 'standby']);
    expect([...(next.request.tokenIds ?? [])]).toEqual([1, 2, 3, 4]);
    expect(sink.failure).toBeUndefined();
  });

  it('takes over a stream from an old process that drains', async () => {
    await fleet.register('a');
    const { call } = await fleet.ask();
    call.sink.accepted();
    call.sink.moveAsked?.();
    expect(addressesOf()).toEqual(['a']); // the process does not move a stream to itself
    await fleet.put(endpoint('a', 'prod-1', 'standby'));
    call.sink.moveAsked?.();
    const next = await fleet.plane.seen(2);
    next.sink.accepted();
    expect([addressesOf(), call.log.at(-1)]).toEqual([['a', 'standby'], 'kill: moved']);
  });

  it('gets new requests at once while the old process is noted as silent', async () => {
    await fleet.register('a');
    const { call } = await fleet.ask();
    call.sink.accepted();
    call.sink.tokens(0, [4], 0, 1);
    for (let second = 0; second < 20; second++) await fleet.clock.advance(1000);
    await expect(fleet.ask({ id: 'r2' })).rejects.toMatchObject({ code: 'service_unavailable' });
    await fleet.put(endpoint('a', 'prod-1', 'standby'));
    const next = await fleet.ask({ id: 'r3' });
    expect(next.call.transport.memory).toBe('standby');
  });

  it('is watched apart from the old process', async () => {
    for (const id of ['a', 'b']) await fleet.register(id);
    const asked = [await fleet.ask(), await fleet.ask({ id: 'r2' })];
    const old = asked.find(({ call }) => call.transport.memory === 'a')?.call;
    old?.sink.accepted();
    await fleet.put(endpoint('a', 'prod-1', 'standby'));
    const next = [await fleet.ask({ id: 'r3' }), await fleet.ask({ id: 'r4' })];
    const other = next.find(({ call }) => call.transport.memory === 'standby')?.call;
    other?.sink.accepted();
    for (let second = 0; second < 20; second++) {
      for (const { call } of [...asked, ...next]) if (call !== old) call.sink.tokens(0, [4], 0, 1);
      await fleet.clock.advance(1000);
    }
    expect([old?.log, other?.log]).toEqual([['kill'], []]); // the old one's stream has moved
  });

  it('is not avoided for what happened at its old address', async () => {
    for (const id of ['a', 'b']) await fleet.register(id);
    const first = await fleet.ask();
    const { transport } = first.call;
    const id = String(transport.memory);
    first.call.sink.accepted();
    await fleet.put(endpoint(id, 'prod-1', 'standby'));
    first.call.sink.fail(workerError('Disconnected'));
    await fleet.plane.seen(2);
    const calls = fleet.plane.calls.length;
    for (let sent = 0; sent < 4; sent++) await fleet.ask({ id: `later-${sent}` });
    expect(
      addressesOf()
        .slice(calls)
        .filter((address) => address === 'standby'),
    ).toHaveLength(2);
  });
});
