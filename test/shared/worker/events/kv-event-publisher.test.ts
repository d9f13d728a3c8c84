import { describe, expect, it } from 'vitest';
import type { KvEvent } from '../../../../shared/engines/index.ts';
import type { EventPublisher } from '../../../../shared/planes/index.ts';
import { KvEventPublisher } from '../../../../shared/worker/events/kv-event-publisher.ts';
import { decodeRouterEvents } from '../../../../shared/worker-events/index.ts';

function start({ holdsOnce }: { readonly holdsOnce?: boolean } = {}) {
  const messages: unknown[] = [];
  const publisher: EventPublisher = {
    publisherId: '2a',
    transport: { kind: 'Memory', config: {} },
    publish: (payload) => void messages.push(payload),
    dropped: 0,
    close: async () => {},
  };
  return { messages, events: new KvEventPublisher({ publisher, instanceId: '2a', dataParallelSize: 1, holdsOnce }) };
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

  it.each([
    ['of copies', false, 0],
    ['of a cache that holds each block once', true, 1],
  ])('that store a block twice and remove it once, %s', (_, holdsOnce, removals) => {
    const { events, messages } = start({ holdsOnce });
    events.publish([stored(1), stored(1), { kind: 'removed', dpRank: 0, blockHashes: Uint32Array.of(1, 1) }]);
    const told = messages.flatMap((message) => decodeRouterEvents(message, (reason) => expect.unreachable(reason)));
    expect(told).toHaveLength(1 + removals);
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
