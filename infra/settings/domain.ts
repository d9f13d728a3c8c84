import * as z from 'zod';
import { Arn } from './names.ts';

/** The name of the deployment on the internet. */
export const Domain = z.strictObject({
  /** Name under which clients reach the API. */
  name: z.string().regex(/^[a-z0-9.-]+\.[a-z]{2,}$/, 'must be a host name'),
  /** Certificate of ACM in this region for it. */
  certificateArn: Arn,
  /**
   * Hosted zone of Route 53 in which both names are made. @default none: the outputs `PublicTarget` and `EdgeTarget`
   * say what to point them at
   */
  hostedZone: z.strictObject({ id: z.string().min(1), name: z.string().min(1) }).optional(),
  /** Name of the container edge's public listener, which the same certificate covers. */
  containerName: z.string().min(1).optional(),
});

/** Refuses names that cannot be made in the hosted zone. */
export function checkNames(
  { domain }: { readonly domain?: z.infer<typeof Domain> | undefined },
  context: z.RefinementCtx,
) {
  const zone = domain?.hostedZone?.name.replace(/\.$/, '');
  if (domain === undefined || zone === undefined) return;
  for (const key of ['name', 'containerName'] as const) {
    const name = domain[key];
    if (name === undefined || name === zone || name.endsWith(`.${zone}`)) continue;
    context.addIssue({
      code: 'custom',
      path: ['domain', key],
      message: `${name} lies outside the hosted zone ${zone}`,
    });
  }
}
