import { systemClock } from '../../clock/index.ts';
import type { KvEvent } from '../../engines/index.ts';
import { EventRelay } from '../../engines/kv-stream/index.ts';
import type { BlockChange } from '../../router/feed/index.ts';
import type { OpenListener } from '../../router/standalone/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** Listens to the ZeroMQ publishers of engines, from all that they remember on. */
export function zmqListeners(logger: Logger): OpenListener {
  return async ({ endpoint, replayEndpoint, dpRank, blockSizeTokens, cacheSalt }, onChange) => {
    const relay = new EventRelay({
      sources: [{ dpRank, endpoint, binds: false, replayEndpoint, topic: '' }],
      blockSizeTokens,
      cacheSalt,
      clock: systemClock,
      logger,
      onDropped: () => {}, // the relay says why in the log
    });
    relay.listen((events) => {
      for (const event of events) onChange(toChange(event));
    });
    await relay.open();
    relay.catchUp();
    return relay;
  };
}

function toChange(event: KvEvent): BlockChange {
  switch (event.kind) {
    case 'stored': {
      const { tier = 'device', parentHash: parent, blockHashes, tokensHashes } = event;
      return { kind: 'stored', tier, parent, blockHashes, tokensHashes };
    }
    case 'removed':
      return { kind: 'removed', tier: event.tier ?? 'device', blockHashes: event.blockHashes };
    case 'cleared':
      return { kind: 'cleared' };
  }
}
