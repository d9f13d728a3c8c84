import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import * as z from 'zod';
import { nearestName } from '../shared/errors/index.ts';

/** Which of the two shapes is deployed: `-c env=NAME`. */
export const ENVIRONMENTS = ['dev', 'production'] as const;

const Name = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9-]{0,63}$/, 'must start with a letter and hold at most 64 letters, digits and hyphens');
const Arn = z
  .string()
  .regex(/^arn:[a-z-]+:[a-z0-9-]+:[a-z0-9-]*:\d*:\S+$/, 'must be an ARN, as arn:aws:SERVICE:REGION:ACCOUNT:RESOURCE');
const ModelName = z.string().min(1).max(200);

/** Sizes in which Fargate sells: CPU units (1024 are one core) and the memory that each goes with. */
const FARGATE_MEMORY_MIB: Readonly<Record<number, readonly [first: number, last: number]>> = {
  256: [512, 2048],
  512: [1024, 4096],
  1024: [2048, 8192],
  2048: [4096, 16_384],
  4096: [8192, 30_720],
};

const size = (cpu: number, memoryMiB: number) =>
  z
    .strictObject({
      /** CPU units, 1024 to a core. */
      cpu: z.union([z.literal(256), z.literal(512), z.literal(1024), z.literal(2048), z.literal(4096)]).default(
        cpu as 256, // one of them
      ),
      memoryMiB: z.int().default(memoryMiB),
    })
    .prefault({})
    .superRefine((given, context) => {
      const [first, last] = FARGATE_MEMORY_MIB[given.cpu] ?? [0, 0];
      const isSold = given.memoryMiB === 512 || given.memoryMiB % 1024 === 0;
      if (given.memoryMiB < first || given.memoryMiB > last || !isSold) {
        const message = `Fargate sells ${first} to ${last} MiB with cpu ${given.cpu}, in steps of 1024`;
        context.addIssue({ code: 'custom', path: ['memoryMiB'], message });
      }
    });

const Model = z.strictObject({
  /** Somebody should always serve it: an alarm tells when nobody does. */
  wanted: z.boolean().default(true),
});

const MockFleet = z.strictObject({
  /** Workers without an engine: they answer in readable text that nobody thought of. */
  kind: z.literal('mock'),
  /** Name of a model in `models`. */
  model: ModelName,
  workers: z.int().min(0).max(64).default(2),
  size: size(256, 512),
  /**
   * Lets two generations of the fleet run side by side: each is a stack of its own, whose workers register in a namespace with
   * this suffix (`DYN_NAMESPACE_WORKER_SUFFIX`). @default none
   */
  generation: z
    .string()
    .regex(/^[a-z0-9]{1,16}$/, 'must be 1 to 16 lower-case letters and digits')
    .optional(),
});

const FunctionEdge = z.strictObject({
  /** Also its share of a core: 1,769 MB are a whole one. */
  memoryMb: z.int().min(256).max(10_240).default(1769),
  /** Most requests at a time; more are refused with 429. @default the account's limit */
  concurrencyMax: z.int().min(1).max(100_000).optional(),
  /** Adds a streaming URL of the function itself, for callers that sign their requests. */
  url: z.boolean().default(false),
});

const ContainerEdge = z.strictObject({
  /** Tasks that always run, in as many zones as there are. */
  tasks: z.int().min(1).max(64).default(2),
  tasksMax: z.int().min(1).max(256).default(8),
  /** Streams that one task is to have; more tasks start above it. Needs `listener`. */
  streamsPerTask: z.int().min(1).max(100_000).default(400),
  /**
   * Who reaches the HTTP server of these tasks: nobody (they are routers alone), the VPC, or the internet, which needs
   * `domain` for its certificate.
   */
  listener: z.enum(['none', 'internal', 'public']).default('none'),
  /** Serves KServe v2 by gRPC behind the public listener too, on the same name and port. */
  grpc: z.boolean().default(false),
});

const Vpc = z.strictObject({
  id: z.string().regex(/^vpc-[0-9a-f]+$/, 'must be the id of a VPC'),
  availabilityZones: z.array(z.string()).min(1).max(6),
  /** One a zone, with a way to the internet or to endpoints of ECR, Logs and Secrets Manager. */
  privateSubnetIds: z.array(z.string()).min(1).max(6),
  /** Route tables of the private subnets; given, gateway endpoints of DynamoDB and S3 are added to them. */
  privateRouteTableIds: z.array(z.string()).max(6).default([]),
  /** One a zone, for a public load balancer. */
  publicSubnetIds: z.array(z.string()).max(6).default([]),
});

const Domain = z.strictObject({
  /** Name under which clients reach the API. */
  name: z.string().regex(/^[a-z0-9.-]+\.[a-z]{2,}$/, 'must be a host name'),
  /** Certificate of ACM in this region for it. */
  certificateArn: Arn,
  /** Hosted zone of Route 53 in which the name is made. @default none: the output `PublicTarget` says what to point it at */
  hostedZone: z.strictObject({ id: z.string().min(1), name: z.string().min(1) }).optional(),
  /** Name of the container edge's public listener, which the same certificate covers. */
  containerName: z.string().min(1).optional(),
});

/** What a deployment may choose. Every part has a default; `infra/stator.config.ts` is the file that is read. */
export const Settings = z
  .strictObject({
    /** Name of the dev stack, and what the names of production's stacks begin with. */
    name: Name.default('Stator'),
    models: z.record(ModelName, Model).default({ 'stator-mini': { wanted: true } }),
    fleets: z.record(Name, MockFleet).default({
      mock: { kind: 'mock', model: 'stator-mini', workers: 2, size: { cpu: 256, memoryMiB: 512 } },
    }),
    sizes: z
      .strictObject({
        /** The one task of dev: edge, NATS and two mock workers. */
        dev: size(512, 1024),
        /** A task of the container edge: one core serves; memory holds the index, 40 bytes a block. */
        edge: size(1024, 2048),
        nats: size(512, 1024),
      })
      .prefault({}),
    edges: z.strictObject({ function: FunctionEdge.prefault({}), container: ContainerEdge.prefault({}) }).prefault({}),
    nats: z
      .strictObject({
        /** Servers: one, whose loss routers mend from the workers, or three, a zone each. */
        servers: z.union([z.literal(1), z.literal(3)]).default(3),
        /** Disk of each; JetStream fills three quarters of it. */
        storageGb: z.int().min(21).max(200).default(40),
        /** Adds a listener for WebSockets on port 8080. */
        websocket: z.boolean().default(false),
        /** Secret with `certificate`, `key` and `ca` (PEM): servers speak TLS, and clients check it. @default none */
        tlsSecretArn: Arn.optional(),
      })
      .prefault({}),
    keys: z
      .strictObject({
        /** Longest time until a revoked key is refused. */
        cacheSecs: z.int().min(0).max(300).default(60),
        /** Keeps /metrics for operators and for keys with the scope metrics. */
        metrics: z.boolean().default(true),
        /** Keeps /docs for whoever has a key. */
        docs: z.boolean().default(false),
      })
      .prefault({}),
    limits: z
      .strictObject({
        /** Sustained requests a second of the API, all callers together; more are refused with 429. */
        requestsPerSecond: z.int().min(1).max(10_000).default(100),
        burst: z.int().min(1).max(5000).default(200),
        /** Largest body at the container edge, MiB; the function's is 6. */
        bodyMb: z.int().min(1).max(1024).default(192),
        /** Requests of a model without a worker wait this long. 0 refuses them. */
        holdSecs: z.int().min(0).max(3600).default(120),
        /** Adds a WAF that blocks an address which sends more in five minutes. @default none */
        requestsPerAddress: z.int().min(100).max(2_000_000_000).optional(),
      })
      .prefault({}),
    network: z
      .strictObject({
        zones: z.int().min(2).max(3).default(3),
        /** Of production: its tasks are private and fetch images. Dev has none. */
        natGateways: z.int().min(1).max(3).default(1),
        /** A VPC of yours instead of one that is made. */
        vpc: Vpc.optional(),
      })
      .prefault({}),
    /** Images that are there already, by their addresses, instead of built ones. The entry point is `stator`. */
    images: z.strictObject({ edge: z.string().min(1).optional() }).prefault({}),
    domain: Domain.optional(),
    alarms: z
      .strictObject({
        /** Topic that alarms go to. @default none: they are seen in the console */
        topicArn: Arn.optional(),
        /** Time to the first token that 99 of 100 requests stay below, in seconds. */
        ttftP99Secs: z.number().positive().default(10),
      })
      .prefault({}),
    /** Days for which logs are kept, as CloudWatch has them. */
    logRetentionDays: z.union([1, 3, 5, 7, 14, 30, 60, 90, 180, 365].map((days) => z.literal(days))).default(30),
    /** Keeps tables, buckets and keys when production's stacks are deleted. */
    retain: z.boolean().default(true),
  })
  .superRefine((given, context) => {
    for (const [name, { model }] of Object.entries(given.fleets)) {
      if (Object.hasOwn(given.models, model)) continue;
      const hint = nearestName(model, Object.keys(given.models));
      const message = `names no model of models${hint === undefined ? '' : `; did you mean ${JSON.stringify(hint)}?`}`;
      context.addIssue({ code: 'custom', path: ['fleets', name, 'model'], message });
    }
    const { container } = given.edges;
    if (container.tasksMax < container.tasks) {
      const message = `must be at least tasks (${container.tasks})`;
      context.addIssue({ code: 'custom', path: ['edges', 'container', 'tasksMax'], message });
    }
    if (container.listener === 'public' && given.domain?.containerName === undefined) {
      const message = 'public needs domain.containerName: keys and prompts do not travel in clear';
      context.addIssue({ code: 'custom', path: ['edges', 'container', 'listener'], message });
    }
    if (container.grpc && container.listener !== 'public') {
      const message = 'needs listener: public: a load balancer takes gRPC by TLS alone';
      context.addIssue({ code: 'custom', path: ['edges', 'container', 'grpc'], message });
    }
    checkZones(given, context);
  });

/** The settings as they count, defaults filled in. */
export type Settings = z.infer<typeof Settings>;

/** What `stator.config.ts` exports. */
export type StatorConfig = z.input<typeof Settings>;

/** What lies in zones. */
interface Zoned {
  readonly network: { readonly zones: number; readonly vpc?: z.infer<typeof Vpc> | undefined };
  readonly nats: { readonly servers: number };
  readonly edges: { readonly container: { readonly listener: string } };
}

function checkZones({ network, nats, edges }: Zoned, context: z.RefinementCtx): void {
  const { vpc, zones } = network;
  if (nats.servers === 3 && (vpc?.availabilityZones.length ?? zones) < 3) {
    const message = 'nats.servers: 3 needs three zones, so that the loss of one leaves two servers';
    const path = vpc === undefined ? ['zones'] : ['vpc', 'availabilityZones'];
    context.addIssue({ code: 'custom', path: ['network', ...path], message });
  }
  if (vpc === undefined) return;
  for (const kind of ['privateSubnetIds', 'publicSubnetIds'] as const) {
    if (vpc[kind].length === vpc.availabilityZones.length) continue;
    if (kind === 'publicSubnetIds' && vpc[kind].length === 0 && edges.container.listener !== 'public') continue;
    const who = kind === 'publicSubnetIds' ? ' for the load balancer of listener: public' : '';
    const message = `must name one subnet for each of availabilityZones (${vpc.availabilityZones.length})${who}`;
    context.addIssue({ code: 'custom', path: ['network', 'vpc', kind], message });
  }
}

/**
 * Checks what a configuration file exports, before any construct exists.
 * @throws Error with one line that names each wrong key by its path and says what it may be.
 */
export function readSettings(given: unknown, file: string): Settings {
  const parsed = Settings.safeParse(given ?? {});
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.flatMap(describe);
  throw new Error(`${file}: ${problems.join('; ')}`);
}

function describe(issue: z.core.$ZodIssue): readonly string[] {
  const path = issue.path.map(String);
  if (issue.code !== 'unrecognized_keys') return [`${path.join('.') || 'the file'}: ${issue.message}`];
  const known = keysAt(path);
  return issue.keys.map((key) => {
    const nearest = nearestName(key, known);
    const hint = nearest === undefined ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
    return `${[...path, key].join('.')}: unknown key; ${hint}`;
  });
}

/** What the object at `path` may hold. */
function keysAt(path: readonly string[]): readonly string[] {
  return Object.keys(shapeOf(path.reduce(stepInto, Settings as unknown)) ?? {});
}

/** Follows one key of a path through objects, records and what wraps them. */
function stepInto(schema: unknown, key: string): unknown {
  const bare = unwrap(schema);
  if (bare instanceof z.ZodObject) return (bare.shape as Record<string, unknown>)[key];
  return bare instanceof z.ZodRecord ? bare.valueType : undefined;
}

function shapeOf(schema: unknown): object | undefined {
  const bare = unwrap(schema);
  return bare instanceof z.ZodObject ? bare.shape : undefined;
}

function unwrap(schema: unknown): unknown {
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional) {
    return unwrap(schema.unwrap());
  }
  return schema;
}

/** Lets an edge serve all generations of workers, where a fleet has one. */
export function namespacesOf({ fleets }: Settings): { readonly DYN_NAMESPACE_PREFIX?: string } {
  const hasGenerations = Object.values(fleets).some(({ generation }) => generation !== undefined);
  return hasGenerations ? { DYN_NAMESPACE_PREFIX: 'dynamo' } : {};
}

/** Where it is looked for without `-c config=PATH`, relative to the repository. */
const DEFAULT_CONFIG = 'infra/stator.config.ts';

/**
 * Reads and checks a configuration file (TypeScript, JavaScript or JSON, its default export).
 * @param file relative to the folder that `cdk` runs in
 * @throws Error in one line when it is not there, or says what nobody understands
 */
export async function loadConfig(file = DEFAULT_CONFIG): Promise<Settings> {
  const path = resolve(file);
  if (!existsSync(path)) throw new Error(`${file}: there is no such file; -c config=PATH names another one`);
  // Under node_modules, from where its imports of packages are resolved.
  const name = createHash('sha256').update(path).digest('hex').slice(0, 12);
  const outfile = resolve(`node_modules/.cache/stator/config-${name}.mjs`);
  await build({ entryPoints: [path], outfile, bundle: true, packages: 'external', platform: 'node', format: 'esm' });
  const module = (await import(pathToFileURL(outfile).href)) as { default?: unknown };
  return readSettings(module.default, file);
}
