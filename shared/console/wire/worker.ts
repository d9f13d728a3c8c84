import * as z from 'zod';
import { count } from './count.ts';

/* The page of a worker, and its row in the fleet. */

const machine = z.object({
  instance_id: z.string(),
  instance_type: z.string().optional(),
  zone: z.string().optional(),
  market: z.string().optional(),
});

/** A worker as the fleet lists it. */
export const worker = z.object({
  id: z.string().describe('Instance id, hex.'),
  model: z.string(),
  pool: z.enum(['aggregated', 'prefill', 'decode', 'encode']),
  endpoint: z.string().describe('namespace.component.endpoint'),
  state: z
    .enum(['ready', 'draining', 'stalled', 'standing'])
    .describe(
      'stalled = silent, no new requests until a canary passes; standing = a decode worker without prefill workers',
    ),
  ranks: count,
  device: z.string().nullable(),
  machine: machine.nullable(),
  requests: count.nullable().describe('Running and waiting requests of all frontends; null = not reported.'),
  kv_blocks: count.nullable().describe('KV blocks in use.'),
  kv_blocks_total: count.nullable(),
  prefill_tokens: count.nullable().describe('Prompt tokens not computed yet.'),
});

export const workerDetailSchema = z.object({
  worker,
  block_tokens: count.describe('Tokens of a KV block; 0 = unknown.'),
  cache: z
    .object({
      source: z
        .enum(['reported', 'predicted'])
        .describe('reported = by the worker; predicted = from the requests that this router has sent to it'),
      ranks: z.array(
        z.object({
          dp_rank: count,
          device_blocks: count,
          host_blocks: count,
          disk_blocks: count,
          is_whole: z.boolean().describe('Whether all blocks were looked at, or only the first 262,144.'),
          prefixes: z
            .array(
              z.object({
                hash: z.string().describe('Hash of its last block, hex.'),
                depth: count.describe('Blocks from the start of the prompt.'),
                below: count.describe('Cached blocks that continue it.'),
                branches: count.describe('Ways in which cached prompts continue it.'),
              }),
            )
            .describe('Prefixes with the most branches: at most 10.'),
        }),
      ),
    })
    .nullable(),
  no_cache: z.string().nullable().describe('Why nothing is known of its cache.'),
  requests: z
    .object({ count, hits: count.describe('Requests with cached tokens.'), prompt_tokens: count, cached_tokens: count })
    .describe('Sums over the requests that this frontend remembers and that the worker has answered.'),
});

export const drainSchema = z.object({ ordered: z.array(z.string()).describe('Ids of the workers.') });

export type ConsoleWorker = z.infer<typeof worker>;
export type ConsoleWorkerDetail = z.infer<typeof workerDetailSchema>;
