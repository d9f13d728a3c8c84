import * as z from 'zod';
import { checkEnvironment, Environment } from './environment.ts';

const CONCURRENCY_ALLOWED = 'must be a number of requests from 1 to 100000, or account';

const FunctionEdge = z.strictObject({
  /** Also its share of a core: 1,769 MB are a whole one. */
  memoryMb: z.int().min(256).max(10_240).default(1769),
  /**
   * Most requests at a time; more are refused with 429. Lambda sets them apart from those of the account's other
   * functions. `account` sets none apart. @default 200 in production, `account` in dev
   */
  concurrencyMax: z
    .union(
      [z.int().min(1, CONCURRENCY_ALLOWED).max(100_000, CONCURRENCY_ALLOWED), z.literal('account')],
      CONCURRENCY_ALLOWED,
    )
    .optional(),
  /** Adds a streaming URL of the function itself, for callers that sign their requests. */
  url: z.boolean().default(false),
  /** Further settings of the function, by their variables. */
  environment: Environment,
});

const ContainerEdge = z.strictObject({
  /** Tasks that always run, in as many zones as there are. */
  tasks: z.int().min(1).max(64).default(2),
  tasksMax: z.int().min(1).max(256).default(8),
  /** Streams that one task should have; above it, more tasks start. Needs `listener`. */
  streamsPerTask: z.int().min(1).max(100_000).default(400),
  /**
   * Clients that reach the HTTP server of these tasks: none (they are only routers), the VPC, or the internet, which
   * needs `domain` for its certificate.
   */
  listener: z.enum(['none', 'internal', 'public']).default('none'),
  /** Serves KServe v2 by gRPC behind the public listener too, on the same name and port. */
  grpc: z.boolean().default(false),
  /** Further settings of the container edge, its resident router among them, by their variables. */
  environment: Environment,
});

/** Edges that clients reach. */
export const Edges = z
  .strictObject({ function: FunctionEdge.prefault({}), container: ContainerEdge.prefault({}) })
  .prefault({});

/** The edges, and what a public one needs. */
interface Reached {
  readonly edges: z.infer<typeof Edges>;
  readonly domain?: { readonly containerName?: string | undefined } | undefined;
  readonly images: { readonly edge?: string | undefined };
}

/** Refuses a container edge whose parts do not fit each other. */
export function checkEdges({ edges, domain, images }: Reached, context: z.RefinementCtx): void {
  const { container } = edges;
  if (container.tasksMax < container.tasks) {
    const message = `${container.tasksMax}: must be at least tasks (${container.tasks})`;
    context.addIssue({ code: 'custom', path: ['edges', 'container', 'tasksMax'], message });
  }
  if (container.listener === 'public' && domain?.containerName === undefined) {
    const message = 'public needs domain.containerName: keys and prompts do not travel in clear';
    context.addIssue({ code: 'custom', path: ['edges', 'container', 'listener'], message });
  }
  if (container.grpc && container.listener !== 'public') {
    const message = 'needs listener: public: a load balancer takes gRPC only over TLS';
    context.addIssue({ code: 'custom', path: ['edges', 'container', 'grpc'], message });
  }
  const image = { hasOwnImage: images.edge !== undefined };
  for (const [name, role] of [
    ['function', 'function'],
    ['container', 'edge'],
  ] as const) {
    checkEnvironment(edges[name].environment, { ...image, role }, ['edges', name, 'environment'], context);
  }
}
