import * as z from 'zod';

/** Name of a stack or a part of one. */
export const Name = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9-]{0,63}$/, 'must start with a letter and hold at most 64 letters, digits and hyphens');
/** Address of something on AWS. */
export const Arn = z
  .string()
  .regex(/^arn:[a-z-]+:[a-z0-9-]+:[a-z0-9-]*:\d*:\S+$/, 'must be an ARN, as arn:aws:SERVICE:REGION:ACCOUNT:RESOURCE');
/** Name under which clients ask for a model. */
export const ModelName = z.string().min(1).max(200);
