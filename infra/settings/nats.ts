import * as z from 'zod';
import { Arn } from './names.ts';

/** The servers that events, requests and the object store go through. */
export const Nats = z
  .strictObject({
    /** Servers: one, whose loss routers mend from the workers, or three, a zone each. */
    servers: z.literal([1, 3]).default(3),
    /** Disk of each; JetStream fills three quarters of it. */
    storageGb: z.int().min(21).max(200).default(40),
    /** Adds a listener for WebSockets on port 8080. */
    websocket: z.boolean().default(false),
    /** Secret with `certificate`, `key` and `ca` (PEM): servers speak TLS, and clients check it. @default none */
    tlsSecretArn: Arn.optional(),
  })
  .prefault({});
