import * as z from 'zod';

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

/** Where tasks run. */
export const Network = z
  .strictObject({
    zones: z.int().min(2).max(3).default(3),
    /** Names of the zones, one for each. @default the first ones of the account */
    availabilityZones: z
      .array(
        z
          .string()
          .regex(
            /^[a-z]+(-[a-z]+)+-\d[a-z]$/,
            'must be the name of a zone, such as eu-west-1a; euw1-az1 is an id and not a name',
          ),
      )
      .min(2)
      .max(3)
      .refine((names) => new Set(names).size === names.length, 'must name each zone once')
      .optional(),
    /**
     * Number of NAT gateways in production. Its tasks are private, and fetch images and secrets through one when they
     * start. With fewer gateways than zones, the loss of one zone can keep tasks of the others from starting. Dev has
     * none. @default one a zone
     */
    natGateways: z.int().min(1).max(3).optional(),
    /**
     * Lets workers on machines of yours reach each other on every port, as NIXL, UCX and EFA ask for. Fleets with pools
     * for prefill and decode may without it.
     */
    workerTransfers: z.boolean().default(false),
    /** Writes down who connected to whom, for as long as logs are kept; 0.50 US$ a GB. */
    flowLogs: z.boolean().default(false),
    /** A VPC of yours instead of one that is made. */
    vpc: Vpc.optional(),
  })
  .prefault({});

/** Parts that lie in zones. */
interface Zoned {
  readonly network: {
    readonly zones: number;
    readonly availabilityZones?: readonly string[] | undefined;
    readonly flowLogs?: boolean;
    readonly natGateways?: number | undefined;
    readonly vpc?: z.infer<typeof Vpc> | undefined;
  };
  readonly nats: { readonly servers: number };
  readonly edges: { readonly container: { readonly listener: string } };
}

/** How many zones a deployment spreads over. */
export function zonesOf({ vpc, availabilityZones, zones }: Zoned['network']): number {
  return (vpc?.availabilityZones ?? availabilityZones)?.length ?? zones;
}

/** Refuses a network with too few zones or subnets for what runs in it. */
export function checkZones({ network, nats, edges }: Zoned, context: z.RefinementCtx): void {
  const { vpc, availabilityZones } = network;
  if (nats.servers === 3 && zonesOf(network) < 3) {
    const message = 'nats.servers: 3 needs three zones, so that the loss of one leaves two servers';
    const own = availabilityZones === undefined ? 'zones' : 'availabilityZones';
    const path = vpc === undefined ? [own] : ['vpc', 'availabilityZones'];
    context.addIssue({ code: 'custom', path: ['network', ...path], message });
  }
  if (network.natGateways !== undefined && network.natGateways > zonesOf(network)) {
    const message = `must be at most the number of zones (${zonesOf(network)}); it is ${network.natGateways}`;
    context.addIssue({ code: 'custom', path: ['network', 'natGateways'], message });
  }
  if (vpc === undefined) return;
  if (network.flowLogs === true) {
    const message = 'is only for a VPC that the deployment creates: network.vpc has flow logs of its own';
    context.addIssue({ code: 'custom', path: ['network', 'flowLogs'], message });
  }
  if (availabilityZones !== undefined) {
    const message =
      'is only for a VPC that the deployment creates: name the zones of network.vpc in network.vpc.availabilityZones';
    context.addIssue({ code: 'custom', path: ['network', 'availabilityZones'], message });
  }
  for (const kind of ['privateSubnetIds', 'publicSubnetIds'] as const) {
    if (vpc[kind].length === vpc.availabilityZones.length) continue;
    if (kind === 'publicSubnetIds' && vpc[kind].length === 0 && edges.container.listener !== 'public') continue;
    const who = kind === 'publicSubnetIds' ? ' for the load balancer of listener: public' : '';
    const message = `must name one subnet for each of availabilityZones (${vpc.availabilityZones.length})${who}`;
    context.addIssue({ code: 'custom', path: ['network', 'vpc', kind], message });
  }
}
