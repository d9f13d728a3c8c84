import * as z from 'zod';
import { Arn } from './names.ts';

/** The name of the deployment on the internet. */
export const Domain = z.strictObject({
  /** Name under which clients reach the API. */
  name: z.string().regex(/^[a-z0-9.-]+\.[a-z]{2,}$/, 'must be a host name'),
  /** Certificate of ACM in this region for it. */
  certificateArn: Arn,
  /** Hosted zone of Route 53 in which the name is made. @default none: the output `PublicTarget` says what to point it at */
  hostedZone: z.strictObject({ id: z.string().min(1), name: z.string().min(1) }).optional(),
  /** Name of the container edge's public listener, which the same certificate covers. */
  containerName: z.string().min(1).optional(),
});
