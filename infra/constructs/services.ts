import { Tags } from 'aws-cdk-lib';
import { FargateService, type FargateServiceProps, PropagatedTagSource } from 'aws-cdk-lib/aws-ecs';
import type { Construct } from 'constructs';

interface ServiceProps extends FargateServiceProps {
  /** Tells `stator secrets rotate` which part of a fleet it is: parts are restarted in an order. */
  readonly part: 'nats' | 'edge' | 'worker' | 'all';
  /**
   * Whether the old task ends before the new one starts, because two tasks would be two logs of events.
   * @default false: a new task is healthy first
   */
  readonly isAlone?: boolean;
}

/**
 * Keeps tasks running. A release that does not start is taken back, and tasks are paid for under the tags of their
 * service.
 */
export function createService(scope: Construct, { part, isAlone = false, ...props }: ServiceProps): FargateService {
  const service = new FargateService(scope, 'Service', {
    propagateTags: PropagatedTagSource.SERVICE,
    circuitBreaker: { rollback: true },
    minHealthyPercent: isAlone ? 0 : 100,
    maxHealthyPercent: isAlone ? 100 : 200,
    ...props,
  });
  Tags.of(service).add('stator:part', part);
  return service;
}
