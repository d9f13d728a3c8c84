import * as z from 'zod';
import { isPlanned } from './fleet-parts.ts';
import { Arn } from './names.ts';

/**
 * The planner of fleets with GPUs. A deployment with such fleets has one of its own, unless it names another one's
 * queue.
 */
export const Planner = z
  .strictObject({
    /**
     * FIFO queue of SQS of a planner that runs elsewhere: it gets the events of the fleet.
     * @default the queue of the deployment's own planner, or none without fleets with GPUs
     */
    queueArn: Arn.regex(
      /:sqs:.*\.fifo$/,
      'must be the ARN of a FIFO queue of SQS, whose name ends with .fifo',
    ).optional(),
    /**
     * Reaches the queue through an endpoint in the private subnets: for a VPC of yours without a way to the internet.
     */
    endpoint: z.boolean().default(false),
    /** Most GPUs of all models together. @default what the replicas of the fleets need at their most */
    gpusMax: z.int().min(1).max(100_000).optional(),
  })
  .prefault({});

/**
 * Most fleets of one planner. The policy of its queue names a rule for each, and has 8,192 bytes ("Amazon SQS policy
 * quotas").
 */
const FLEETS_MAX = 58;
/**
 * Most options of all fleets on EC2: the role of the planner names the group of each, and takes ten policies ("IAM and
 * AWS STS quotas").
 */
const OPTIONS_MAX = 250;

/** A planner, its fleets, and the network of those who tell it. */
interface Told {
  readonly planner: z.infer<typeof Planner>;
  readonly fleets: Readonly<Record<string, { readonly kind: string; readonly options?: readonly unknown[] }>>;
  readonly network: { readonly vpc?: unknown };
}

/** Whether a deployment runs a planner of its own. Dev has no fleets with GPUs, so only production does. */
export function hasPlanner({ planner, fleets }: Pick<Told, 'planner' | 'fleets'>): boolean {
  return planner.queueArn === undefined && Object.values(fleets).some(isPlanned);
}

/**
 * Refuses an endpoint that nothing needs, a bound that no planner of the deployment would keep, and more fleets than it
 * can scale.
 */
export function checkPlanner({ planner, fleets, network }: Told, context: z.RefinementCtx): void {
  const isOwn = hasPlanner({ planner, fleets });
  if (planner.gpusMax !== undefined && !isOwn) {
    const why =
      planner.queueArn === undefined ? 'there is no fleet of kind: ec2 or eks' : 'planner.queueArn names another one';
    const message = `${planner.gpusMax}: is for the deployment's own planner, and ${why}`;
    context.addIssue({ code: 'custom', path: ['planner', 'gpusMax'], message });
  }
  if (isOwn) checkSize(fleets, context);
  if (!planner.endpoint) return;
  const path = ['planner', 'endpoint'];
  if (planner.queueArn === undefined && !isOwn) {
    const message = 'needs planner.queueArn, or a fleet of kind: ec2 or eks: it leads to nothing else';
    context.addIssue({ code: 'custom', path, message });
  }
  if (network.vpc === undefined) {
    const message = 'needs network.vpc: tasks in a network that is made reach the queue by themselves';
    context.addIssue({ code: 'custom', path, message });
  }
}

function checkSize(fleets: Told['fleets'], context: z.RefinementCtx): void {
  const refuse = (message: string) => context.addIssue({ code: 'custom', path: ['fleets'], message });
  const own = Object.values(fleets).filter(isPlanned);
  const ofMachines = own.filter(({ kind }) => kind === 'ec2');
  const options = ofMachines.reduce((sum, { options: { length } = [] }) => sum + length, 0);
  if (own.length > FLEETS_MAX)
    refuse(`${own.length} are of kind ${own[0]?.kind}: one planner scales at most ${FLEETS_MAX}`);
  if (options > OPTIONS_MAX) refuse(`${options} options on EC2: one planner scales at most ${OPTIONS_MAX}`);
}
