import type { Engine } from '../../engines/index.ts';
import { toServeError } from '../../errors/index.ts';
import type { IncomingCall } from '../../planes/request/index.ts';

/** Endpoint that empties the prefix cache. */
export const CLEAR_ENDPOINT = 'clear_kv_blocks';

/** Empties the engine's prefix cache and says so. What the engine had cached is told to routers by its own `cleared` events. */
export async function serveClear(engine: Pick<Engine, 'clearKvBlocks'>, call: IncomingCall): Promise<void> {
  call.accept();
  try {
    await engine.clearKvBlocks?.(call.signal);
    call.output({ body: { status: 'success', message: 'KV cache cleared' } });
    call.end();
  } catch (thrown) {
    call.fail(toServeError(thrown));
  }
}
