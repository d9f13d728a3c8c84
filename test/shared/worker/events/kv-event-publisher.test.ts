import { describe, expect, it } from 'vitest';
import type { KvEvent } from '../../../../shared/engines/index.ts';
import type { EventPublisher } from '../../../../shared/planes/index.ts';
import { decodeRouterEvents } from '../../../../shared/router/index.ts';
import { KvEventPublisher } from '../../../../shared/worker/events/kv-event-publisher.ts';

function start() {
  const messages: unknown[] = [];
  const publisher: EventPublisher = {
    publisherId: '2a',
    transport: { kind: 'Memory', config: {} },
    publish: (payload) => void messages.push(payload),
    dropped: 0,
    close: async () => {},
  };
  return { messages, events: new KvEventPublisher({ publisher, instanceId: '2a', dataParallelSize: 1 }) };
}

const stored = (block: number): KvEvent => ({
  kind: 'stored',
  dpRank: 0,
  parentHash: undefined,
  blockHashes: Uint32Array.of(block, 1),
  tokensHashes: Uint32Array.of(block, 2),
});

describe('events of a step of an engine', () => {
  it('are one message, and none where nothing changed', () => {
    const { events, messages } = start();
    events.publish([stored(1), stored(2)]);
    events.publish([]);
    expect(messages).toHaveLength(1);
  });

  it('are several messages where they are very many: routers read every one', () => {
    const { events, messages } = start();
    events.publish(Array.from({ length: 10_000 }, (_, block) => stored(block)));
    const ids = messages.flatMap((message) =>
      decodeRouterEvents(message, (reason) => expect.unreachable(reason)).map(({ eventId }) => eventId),
    );
    expect(ids).toEqual(Array.from({ length: 10_000 }, (_, at) => at + 1));
  });
});
