import { type Fields, fieldsOf, listOf } from '../aws-answers.ts';
import { optionsIn } from '../deploy-machines.ts';
import type { SynthesizedStack } from '../deploy-releases.ts';
import { propertiesOf, type ServiceTasks, servicesOf } from '../deploy-templates.ts';

/** Parts of a deployment's templates that have a price. */
export interface Deployment {
  readonly templates: readonly unknown[];
  /** Services, with the stack in their names. */
  readonly services: readonly ServiceTasks[];
  /** Models that workers serve. */
  readonly models: number;
  /** Function that streams; undefined if there is none. */
  readonly streaming: StreamingFunction | undefined;
  /** Requests a second that the gateway lets through. */
  readonly gatewayRate: number;
  /** Requests a second that a firewall lets through to the load balancers. */
  readonly balancerRate: number;
  readonly guardsGateway: boolean;
  readonly guardsBalancer: boolean;
}

interface StreamingFunction {
  readonly gb: number;
  /** Concurrent requests; undefined if it may use all that the account has left. */
  readonly reserved: number | undefined;
  /** Seconds that a request waits for a worker at most. */
  readonly holdSecs: number | undefined;
}

export function readDeployment(stacks: readonly SynthesizedStack[]): Deployment {
  const templates = stacks.map(({ template }) => template);
  const of = (type: string): readonly Fields[] => propertiesOf(templates, type);
  const guarded = of('AWS::WAFv2::WebACLAssociation').map(({ ResourceArn }) => JSON.stringify(ResourceArn));
  return {
    templates,
    services: stacks.flatMap(({ name, template }) =>
      servicesOf(template).map((service) => ({ ...service, name: `${name}/${service.name}` })),
    ),
    models: new Set([
      ...modelsIn(of('AWS::ECS::TaskDefinition')),
      ...optionsIn(templates).map(({ model }) => `${MODEL_FLAG}${model}`),
    ]).size,
    streaming: streamingOf(of('AWS::Lambda::Function')),
    gatewayRate: of('AWS::ApiGateway::Stage').reduce((sum, stage) => sum + rateOf(stage), 0),
    balancerRate: of('AWS::WAFv2::WebACL').reduce((sum, list) => sum + ruleRate(list), 0),
    guardsGateway: guarded.some((arn) => arn.includes(':apigateway:')),
    guardsBalancer: guarded.some((arn) => !arn.includes(':apigateway:')),
  };
}

/** Returns the function that streams, which is the largest: CDK adds small ones. */
function streamingOf(functions: readonly Fields[]): StreamingFunction | undefined {
  const memoryOf = ({ MemorySize }: Fields): number => Number(MemorySize ?? 128);
  const [largest] = functions.toSorted((a, b) => memoryOf(b) - memoryOf(a));
  if (largest === undefined) return undefined;
  const { ReservedConcurrentExecutions: reserved, Environment } = largest;
  const holdSecs = fieldsOf(fieldsOf(Environment).Variables).STATOR_HOLD_TIMEOUT;
  return {
    gb: memoryOf(largest) / 1024,
    reserved: reserved === undefined ? undefined : Number(reserved),
    holdSecs: holdSecs === undefined ? undefined : Number(holdSecs),
  };
}

const MODEL_FLAG = '--model-name=';

/** Returns the flags that name the models of workers in tasks. */
function modelsIn(definitions: readonly Fields[]): readonly unknown[] {
  const words = definitions.flatMap(({ ContainerDefinitions }) =>
    listOf(ContainerDefinitions).flatMap((container) => listOf(fieldsOf(container).Command)),
  );
  return words.filter((word) => typeof word === 'string' && word.startsWith(MODEL_FLAG));
}

function rateOf({ MethodSettings }: Fields): number {
  return Math.max(0, ...listOf(MethodSettings).map((each) => Number(fieldsOf(each).ThrottlingRateLimit ?? 0)));
}

/** Returns the rate of the rule that counts all callers together. */
function ruleRate({ Rules }: Fields): number {
  return listOf(Rules).reduce<number>((sum, rule) => {
    const limit = fieldsOf(fieldsOf(fieldsOf(rule).Statement).RateBasedStatement);
    return limit.AggregateKeyType === 'CONSTANT' ? sum + Number(limit.Limit) / Number(limit.EvaluationWindowSec) : sum;
  }, 0);
}
