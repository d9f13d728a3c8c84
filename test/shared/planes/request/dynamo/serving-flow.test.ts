import { afterEach, describe, expect, it } from 'vitest';
import type { DynamoPlane } from '../../../../../shared/planes/request/dynamo/plane.ts';
import { DynamoPlaneServer } from '../../../../../shared/planes/request/dynamo/server.ts';
import type { ServingSettings } from '../../../../../shared/planes/request/dynamo/serving-settings.ts';
import { silentObserver } from '../../../../../shared/planes/request/observer.ts';
import type { PlaneHandler } from '../../../../../shared/planes/request/types.ts';
import { HeldCalls, RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../../../support/index.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';
import { openCaller, servingSettings } from './serving.ts';

const PATH = '2a/dynamo/backend/generate';

describe("a worker for Dynamo's frontends whose engine does not wait", () => {
  let server: DynamoPlaneServer;
  let caller: DynamoPlane;

  async function ask(handler: PlaneHandler, settings: Partial<ServingSettings> = {}) {
    server = await DynamoPlaneServer.listen(servingSettings(settings));
    caller = openCaller();
    const sink = new RecordingSink();
    const request = { id: 'r1', headers: {}, body: { model: 'm' }, tokenIds: Uint32Array.of(1) };
    return { sink, call: caller.call(server.handle(PATH, handler), request, sink) };
  }
  afterEach(async () => {
    await caller.close();
    await server.close();
  });

  /** Begins an answer, and returns it when its connection is open. */
  async function hold(settings?: Partial<ServingSettings>) {
    const held = new HeldCalls();
    const asked = await ask(held.handler, settings);
    const incoming = await held.at(0);
    incoming.accept();
    await waitUntil(() => asked.sink.events.length === 1, { what: 'an open stream' });
    return { ...asked, incoming };
  }

  /** Returns what arrived: ids of tokens, and those of items as their negatives. */
  function arrived(sink: RecordingSink): number[] {
    return sink.events.flatMap((event) => {
      if (event.kind === 'tokens') return event.ids;
      return event.kind === 'output' ? (event.output.token_ids ?? []).map((id) => -id) : [];
    });
  }

  const MIXED = Array.from({ length: 3000 }, (_, at) => (at % 5 === 4 ? -at : at));

  it('sends all it made before its connection was open once, and in order', async () => {
    const { sink } = await ask((call) => {
      for (const id of MIXED) {
        if (id < 0) call.output({ token_ids: [-id], log_probs: [-1] });
        else call.tokens(0, [id], 0, 1);
      }
      call.end();
    });
    await sink.closed();
    expect(arrived(sink)).toEqual(MIXED);
  });

  it('sends more tokens than the credit of a stream at once', async () => {
    const { sink, incoming } = await hold();
    const ids = Array.from({ length: 5000 }, (_, at) => at);
    incoming.tokens(0, ids, 0, 5000);
    incoming.end();
    await sink.closed();
    expect(arrived(sink).map(Math.abs)).toEqual(ids); // a caller may read many tokens at once as an item
  });

  it('sends all once, and in order, to a caller that stopped reading for a while', async () => {
    const { sink, call, incoming } = await hold();
    call.pause();
    const text = 'x'.repeat(20_000);
    for (const id of MIXED) {
      if (id < 0) incoming.output({ token_ids: [-id], text });
      else incoming.tokens(0, [id], 0, 1);
    }
    expect(incoming.isBlocked()).toBe(true);
    incoming.end();
    call.resume();
    await sink.closed();
    expect(arrived(sink)).toEqual(MIXED);
  });

  describe('and a caller that reads nothing of a whole answer', () => {
    const IDS = Array.from({ length: 200 }, (_, at) => at + 1);

    /** More tokens than the credit of a stream. */
    const MANY = Array.from({ length: 5000 }, (_, at) => at);

    async function holdUnread(settings: Partial<ServingSettings>) {
      const held = await hold(settings);
      held.call.pause();
      const text = 'x'.repeat(200_000);
      for (const id of IDS) held.incoming.output({ token_ids: [id], text });
      held.incoming.end();
      return held;
    }

    it('keeps the rest for a minute', async () => {
      const clock = new VirtualClock();
      const { sink, call } = await holdUnread({ clock });
      await clock.advance(60_000);
      expect(server.activeStreams).toBe(1);
      call.resume();
      expect((await sink.closed()).kind).toBe('end');
      expect(arrived(sink)).toEqual(IDS.map((id) => -id));
    });

    it('drops the rest after ten minutes, and counts it as an error of the connection', async () => {
      let errors = 0;
      const observer = { ...silentObserver, connectionError: () => void errors++ };
      const clock = new VirtualClock();
      await holdUnread({ clock, observer });
      await clock.advance(600_000);
      expect([server.activeStreams, errors]).toEqual([0, 1]);
    });

    it.each([true, false])(
      'drops more than fits into the connection after ten minutes, whether it has ended: %s',
      async (isEnded) => {
        const clock = new VirtualClock();
        const { call, incoming } = await hold({ clock });
        call.pause();
        const text = 'x'.repeat(200_000);
        for (const id of IDS) incoming.output({ token_ids: [id], text });
        incoming.tokens(0, MANY, 0, MANY.length);
        if (isEnded) incoming.end();
        await clock.advance(599_000);
        expect(server.activeStreams).toBe(1);
        await clock.advance(1000);
        expect(server.activeStreams).toBe(0);
        expect(incoming.signal.reason).toMatchObject({ worker: 'Cancelled' });
      },
    );
  });
});
