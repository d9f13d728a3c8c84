import type { Resource } from '../localize.ts';
import type { Templates, TemplateValues } from './values.ts';

/** A target group as its template describes it. */
export interface TargetGroupPlan {
  /** `STACK/ID`. */
  readonly id: string;
  readonly isGrpc: boolean;
  readonly healthPath: string;
  readonly intervalMs: number;
  /** Successful checks in a row before a target receives requests. */
  readonly healthyThreshold: number;
  /** Failed checks in a row after which a target receives no more requests. */
  readonly unhealthyThreshold: number;
  readonly deregistrationMs: number;
}

/** Listeners and rules of a deployment. */
export interface BalancerPlan {
  readonly groups: readonly TargetGroupPlan[];
  /** Returns the id of the group that receives requests for `path`. */
  groupOf(path: string): string;
}

interface Action {
  readonly TargetGroupArn?: string;
  readonly ForwardConfig?: { readonly TargetGroups: readonly { readonly TargetGroupArn: string }[] };
}

interface Rule {
  readonly Priority: number;
  readonly Actions: readonly Action[];
  readonly Conditions: readonly { readonly PathPatternConfig?: { readonly Values: readonly string[] } }[];
}

const TYPE = 'AWS::ElasticLoadBalancingV2';

/**
 * Reads the listeners and target groups of a deployment.
 * @throws Error if the templates have no listener
 */
export function readBalancer(templates: Templates, values: TemplateValues): BalancerPlan {
  const of = (type: string) =>
    Object.entries(templates).flatMap(([stack, { Resources }]) =>
      Object.entries(Resources)
        .filter(([, { Type }]) => Type === `${TYPE}::${type}`)
        .map(([id, resource]) => ({
          stack,
          id,
          resource,
          properties: values.resolve(stack, resource.Properties) as object,
        })),
    );
  const groups = of('TargetGroup').map(({ stack, id, resource }) => ({
    arn: values.text(stack, { Ref: id }),
    plan: readGroup(`${stack}/${id}`, resource),
  }));
  const groupIn = (actions: readonly Action[]): string => {
    const arn = actions[0]?.TargetGroupArn ?? actions[0]?.ForwardConfig?.TargetGroups[0]?.TargetGroupArn;
    const found = groups.find((group) => group.arn === arn);
    if (found === undefined) throw new Error(`no target group is called ${arn}`);
    return found.plan.id;
  };
  const [listener] = of('Listener');
  if (listener === undefined) throw new Error('the templates have no listener');
  const { DefaultActions } = listener.properties as { readonly DefaultActions: readonly Action[] };
  const byDefault = groupIn(DefaultActions);
  const rules = of('ListenerRule')
    .map(({ properties }) => properties as Rule)
    .sort((one, other) => one.Priority - other.Priority)
    .map(({ Conditions, Actions }) => ({ patterns: Conditions.flatMap(patternsOf), group: groupIn(Actions) }));
  return {
    groups: groups.map(({ plan }) => plan),
    groupOf: (path) => rules.find(({ patterns }) => patterns.some((each) => each.test(path)))?.group ?? byDefault,
  };
}

function patternsOf({ PathPatternConfig }: Rule['Conditions'][number]): readonly RegExp[] {
  return (PathPatternConfig?.Values ?? []).map((pattern) => {
    const text = pattern
      .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
      .replaceAll('*', '.*')
      .replaceAll('?', '.');
    return new RegExp(`^${text}$`);
  });
}

function readGroup(id: string, { Properties = {} }: Resource): TargetGroupPlan {
  const {
    HealthCheckPath,
    HealthCheckIntervalSeconds,
    HealthyThresholdCount,
    UnhealthyThresholdCount,
    ProtocolVersion,
  } = Properties;
  const attributes = (Properties.TargetGroupAttributes ?? []) as { readonly Key: string; readonly Value: string }[];
  const delay = attributes.find(({ Key }) => Key === 'deregistration_delay.timeout_seconds')?.Value;
  return {
    id,
    isGrpc: ProtocolVersion === 'GRPC',
    healthPath: String(HealthCheckPath ?? '/'),
    intervalMs: Number(HealthCheckIntervalSeconds ?? 30) * 1000,
    healthyThreshold: Number(HealthyThresholdCount ?? 5),
    unhealthyThreshold: Number(UnhealthyThresholdCount ?? 2),
    deregistrationMs: Number(delay ?? 300) * 1000,
  };
}
