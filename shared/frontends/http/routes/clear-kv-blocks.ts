import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { sendJson } from '../sinks/send.ts';

export const CLEAR_KV_BLOCKS_PATH = '/clear_kv_blocks';

/** `POST /clear_kv_blocks`: empties the prefix caches of every worker, and lists what became of each. */
export async function serveClearKvBlocks({ caches }: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const workers = (await caches?.clear()) ?? [];
  if (workers.length === 0) {
    sendJson(exchange, 200, { message: 'No active worker groups found' });
    return;
  }
  const rows = workers.map(({ model, endpoint, workerId, failure }) => ({
    isCleared: failure === undefined,
    row: {
      name: model,
      endpoint,
      instance_id: workerId,
      ...(failure === undefined
        ? { status: 'success', response: 'KV cache cleared' }
        : { status: 'failed', error: failure }),
    },
  }));
  sendJson(exchange, 200, {
    cleared_workers: rows.filter(({ isCleared }) => isCleared).map(({ row }) => row),
    failed_workers: rows.filter(({ isCleared }) => !isCleared).map(({ row }) => row),
  });
}
