import * as z from 'zod';
import { Arn } from './names.ts';

/** A planner that runs elsewhere. */
export const Planner = z
  .strictObject({
    /** FIFO queue of SQS for the events of the fleet. @default none: nothing is sent */
    queueArn: Arn.regex(
      /:sqs:.*\.fifo$/,
      'must be the ARN of a FIFO queue of SQS, whose name ends with .fifo',
    ).optional(),
    /**
     * Reaches the queue through an endpoint in the private subnets: for a VPC of yours without a way to the internet.
     */
    endpoint: z.boolean().default(false),
  })
  .prefault({});

/** A planner, and where those who tell it run. */
interface Told {
  readonly planner: z.infer<typeof Planner>;
  readonly network: { readonly vpc?: unknown };
}

/** Refuses an endpoint that nothing needs. */
export function checkPlanner({ planner, network }: Told, context: z.RefinementCtx): void {
  if (!planner.endpoint) return;
  const path = ['planner', 'endpoint'];
  if (planner.queueArn === undefined)
    context.addIssue({ code: 'custom', path, message: 'needs planner.queueArn: it leads to nothing else' });
  if (network.vpc === undefined) {
    const message = 'needs network.vpc: tasks in a network that is made reach the queue by themselves';
    context.addIssue({ code: 'custom', path, message });
  }
}
