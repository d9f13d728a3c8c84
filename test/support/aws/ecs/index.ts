/**
 * @module test/support/aws/ecs Runs the services of templates on this machine as CloudFormation and ECS would.
 * `EcsCluster` is the entry point.
 */
export { DeploymentFailed, EcsCluster } from './cluster.ts';
export { onlyServicesOf, withContainer, withHealthCheck, withRelease } from './edit.ts';
export { imageHere, type LocalImage, type Machine, SHARED } from './machine.ts';
export type { RunningService } from './running-service.ts';
export { type Templates, TemplateValues } from './values.ts';
