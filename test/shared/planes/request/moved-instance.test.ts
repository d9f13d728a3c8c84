import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import type { PlaneServer, RequestPlane } from '../../../../shared/planes/index.ts';
import { DynamoPlaneServer } from '../../../../shared/planes/request/dynamo/server.ts';
import { createTcpRequestPlane } from '../../../../shared/planes/request/tcp/plane.ts';
import { HeldCalls, RecordingSink } from '../../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../../support/index.ts';
import { openCaller, servingSettings } from './dynamo/serving.ts';

const ENDPOINT = '2a/dynamo/backend/generate';

interface Side {
  readonly caller: Pick<RequestPlane, 'call' | 'close'>;
  /** Starts a process that serves instance 2a at an address of its own. */
  serve(): Promise<Pick<PlaneServer, 'handle' | 'close' | 'reachable'>>;
}

const SIDES: Readonly<Record<string, () => Side>> = {
  tcp: () => {
    const plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1' });
    return { caller: createTcpRequestPlane({ clock: systemClock }), serve: () => plane.serve({ instanceId: '2a' }) };
  },
  "Dynamo's": () => ({
    caller: openCaller(),
    serve: () => DynamoPlaneServer.listen(servingSettings()),
  }),
};

describe.each(Object.keys(SIDES))('an instance that moved, on request plane %s', (name) => {
  it('is called at its new address, while a stream at the old one goes on', async () => {
    const { caller, serve } = (SIDES[name] as () => Side)();
    const servers = [await serve(), await serve()];
    const held = [new HeldCalls(), new HeldCalls()];
    const sinks = [new RecordingSink(), new RecordingSink()];
    for (const [at, server] of servers.entries()) {
      const transport = server.handle(ENDPOINT, (held[at] as HeldCalls).handler);
      await server.reachable(AbortSignal.timeout(8000));
      const body = { token_ids: [1], stop_conditions: {}, sampling_options: {}, output_options: {} };
      caller.call(transport, { id: `r${at}`, headers: {}, body }, sinks[at] as RecordingSink);
      await held[at]?.at(0);
    }
    for (const [at, calls] of held.entries()) {
      calls.calls[0]?.tokens(0, [at + 5], 0, 1);
      calls.calls[0]?.end();
    }
    await waitUntil(() => sinks.every(({ events }) => events.at(-1)?.kind === 'end'));
    expect(sinks.map(({ ids }) => ids)).toEqual([[5], [6]]);
    await caller.close();
    await Promise.all(servers.map((server) => server.close()));
  });
});
