import * as z from 'zod';
import { count } from './count.ts';

/* The page of keys. */

const key = z.object({
  id: z.string(),
  name: z.string(),
  owner: z.string(),
  scopes: z.array(z.string()),
  models: z.array(z.string()).nullable().describe('null = all models.'),
  requests_per_minute: count.nullable().describe('Limit for each frontend process, like the next two; null = none.'),
  tokens_per_minute: count.nullable(),
  tokens_per_day: count.nullable(),
  used: z
    .object({ requests: count, tokens: count, tokens_today: count.describe('Since midnight in UTC.') })
    .nullable()
    .describe('Use at this frontend process since it started; null if it requires no keys.'),
  left: z
    .object({
      requests_per_minute: count.nullable(),
      tokens_per_minute: count.nullable(),
      tokens_per_day: count.nullable(),
    })
    .nullable()
    .describe('Rest of each limit at this frontend process; null if it requires no keys.'),
  created_ms: z.number(),
  expires_ms: z.number().nullable(),
  state: z.enum(['valid', 'expired', 'revoked']),
});

export const keysSchema = z.object({ keys: z.array(key).describe('The oldest first.') });

export const keySchema = key;

export const issuedKeySchema = z.object({ text: z.string().describe('The key, which is shown only now.'), key });

export type ConsoleKey = z.infer<typeof key>;
export type ConsoleKeys = z.infer<typeof keysSchema>;
export type ConsoleIssuedKey = z.infer<typeof issuedKeySchema>;
