/**
 * The CDK app. `npx cdk synth` needs neither network, credentials nor Docker. Context (`-c name=value`):
 *
 * | Name | Default | Meaning |
 * |---|---|---|
 * | `stackName` | `Stator` | name of the stack |
 * | `retainTables` | `false` | keep the tables when the stack is deleted |
 * | `routerMode` | `round-robin`, `kv` with `routerImage` | `DYN_ROUTER_MODE` of the frontend |
 * | `natGateways` | `0` | NAT gateways for workers that need the internet |
 * | `nats` | `false` | add a NATS server for KV events and snapshots; needs a NAT gateway |
 * | `routerImage` | none | add resident routers that run this image of `stator`; needs `nats` |
 * | `functionUrl` | `false` | add a streaming URL of the function itself (callers sign with SigV4) |
 */
import { App, RemovalPolicy } from 'aws-cdk-lib';
import { Code } from 'aws-cdk-lib/aws-lambda';
import * as z from 'zod';
import { bundleFunction } from './bundle.ts';
import { ServingStack } from './stacks/serving-stack.ts';

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
type Settings = z.infer<typeof Settings>;

const app = new App();
const settings = readSettings((name) => app.node.tryGetContext(name) as unknown);
new ServingStack(app, settings.stackName, {
  httpFunctionCode: Code.fromAsset(bundleFunction().directory),
  removalPolicy: settings.retainTables ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY,
  ...(settings.routerMode === undefined ? {} : { routerMode: settings.routerMode }),
  ...(settings.routerImage === undefined ? {} : { routerImage: settings.routerImage }),
  natGateways: settings.natGateways,
  nats: settings.nats,
  functionUrl: settings.functionUrl,
  ...(settings.retainTables ? { terminationProtection: true } : {}),
});
app.synth();

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
