import type { Stack } from 'aws-cdk-lib';
import type { Code } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import type { KubectlLayer } from '../constructs/eks/eks-cluster.ts';
import { addSpending, warnOfSpending } from '../constructs/spending.ts';
import { tagCosts } from '../constructs/tags.ts';
import { forProduction, type Settings, stackOf } from '../settings/index.ts';
import { AmiStack } from './ami-stack.ts';
import { DataStack } from './data-stack.ts';
import { EdgeStack, type Releasing } from './edge-stack.ts';
import { EksStack } from './eks-stack.ts';
import { FleetStack } from './fleet-stack.ts';
import { type PlannerCode, PlannerStack } from './planner-stack.ts';

interface ProductionProps extends Releasing {
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly httpFunctionCode: Code;
  /** The bundled functions of the planner, if the deployment has one (`hasPlanner`). */
  readonly planner?: PlannerCode | undefined;
  /** Layer with kubectl, for `eks.apply`. @default manifests are only written */
  readonly kubectl?: KubectlLayer | undefined;
  readonly settings: Settings;
}

/**
 * A deployment in stacks that live for different times: data, cluster, planner, edge, images for machines, and one for
 * each fleet. They belong to the app, not to a `Stage`: `cdk deploy --all` passes over the stacks of a stage.
 */
export class ProductionStacks extends Construct {
  constructor(scope: Construct, id: string, props: ProductionProps) {
    super(scope, id);
    const { httpFunctionCode, planner: code, kubectl, rollout } = props;
    const settings = forProduction(props.settings);
    const data = new DataStack(this, 'Data', { settings, stackName: `${id}-Data` });
    const hasPods = Object.values(settings.fleets).some(({ kind }) => kind === 'eks');
    const eks = hasPods ? new EksStack(this, 'Eks', { data, kubectl, settings, stackName: `${id}-Eks` }) : undefined;
    const planner =
      code === undefined
        ? undefined
        : new PlannerStack(this, 'Planner', { data, eks, code, settings, stackName: `${id}-Planner` });
    if (eks !== undefined) planner?.addStackDependency(eks, 'its role enters the cluster');
    const common = { data, eks, planner, settings };
    const edge = new EdgeStack(this, 'Edge', { ...common, httpFunctionCode, rollout, stackName: `${id}-Edge` });
    const hasImages = Object.keys(settings.machineImages).length > 0;
    const images = hasImages ? new AmiStack(this, 'Ami', { data, settings, stackName: `${id}-Ami` }) : undefined;
    for (const [name, fleet] of Object.entries(settings.fleets)) {
      const own = stackOf(name, fleet);
      const stack = new FleetStack(this, own, { ...common, edge, fleet, fleetName: name, stackName: `${id}-${own}` });
      if (eks !== undefined && fleet.kind === 'eks') stack.addStackDependency(eks, 'its pods are in the cluster');
      if (images !== undefined && fleet.kind === 'ec2') stack.addStackDependency(images, 'a parameter names its image');
    }
    addSpending(edge, settings);
    warnOfSpending(edge, settings);
    for (const stack of this.node.children as Stack[]) tagCosts(stack, settings.name, 'production');
  }
}
