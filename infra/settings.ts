import * as z from 'zod';

/** `-c name=value` arrives as text; `cdk.json` may hold real booleans and numbers. */
const flag = z.union([z.boolean(), z.enum(['true', 'false']).transform((text) => text === 'true')]);

const Settings = z.strictObject({
  stackName: z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9-]{0,127}$/, 'must start with a letter and hold letters, digits and hyphens')
    .default('Stator'),
  retainTables: flag.default(false),
  routerMode: z.string().min(1).optional(),
  natGateways: z.coerce.number().int().min(0).max(16).default(0),
  nats: flag.default(false),
  routerImage: z.string().min(1).optional(),
  functionUrl: flag.default(false),
});

/** What a deployment may choose; `infra/app.ts` documents each name. */
export type Settings = z.infer<typeof Settings>;

/**
 * Reads and checks the settings before any construct exists.
 * @throws Error naming the context key and what it may be.
 */
export function readSettings(context: (name: string) => unknown): Settings {
  const given = Object.fromEntries(
    Object.keys(Settings.shape)
      .map((name) => [name, context(name)] as const)
      .filter(([, value]) => value !== undefined),
  );
  const parsed = Settings.safeParse(given);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `-c ${issue.path.join('.')}=...: ${issue.message}`);
  throw new Error(`the deployment's settings are wrong: ${problems.join('; ')}`);
}
