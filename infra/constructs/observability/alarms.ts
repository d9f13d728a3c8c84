import { Stack } from 'aws-cdk-lib';
import {
  Alarm,
  type AlarmBase,
  AlarmRule,
  ComparisonOperator,
  CompositeAlarm,
  type IAlarm,
  type IMetric,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { Topic } from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';
import type { Settings } from '../../settings/index.ts';

/** Metric that an alarm watches, and the alarm's text. */
export interface Watch {
  readonly id: string;
  readonly metric: IMetric;
  readonly threshold: number;
  /** @default at least the threshold */
  readonly isBelow?: boolean;
  /** Text of the alarm, in a few words. */
  readonly about: string;
  /** Heading of docs/operations.md, as its link has it. */
  readonly paragraph: string;
  /**
   * Meaning of missing data: all is well (`quiet`), a part that should report is broken (`broken`), or nothing new
   * (`asBefore`).
   */
  readonly missing: 'quiet' | 'broken' | 'asBefore';
  /** Bad periods of the metric that raise the alarm, and the last periods that are looked at. @default 3 of 5 */
  readonly periods?: readonly [bad: number, of: number];
}

const MISSING = {
  quiet: TreatMissingData.NOT_BREACHING,
  broken: TreatMissingData.BREACHING,
  asBefore: TreatMissingData.IGNORE,
} as const satisfies Record<Watch['missing'], TreatMissingData>;

/** Makes the alarms of a stack, each of which tells the topic of the settings when it begins and when it is over. */
export class Alarms {
  readonly #scope: Construct;
  readonly #tickets: SnsAction | undefined;
  readonly #pages: SnsAction | undefined;

  constructor(scope: Construct, { topicArn, pageTopicArn = topicArn }: Settings['alarms']) {
    this.#scope = scope;
    this.#tickets = topicArn === undefined ? undefined : new SnsAction(Topic.fromTopicArn(scope, 'Topic', topicArn));
    this.#pages =
      pageTopicArn === topicArn || pageTopicArn === undefined
        ? this.#tickets
        : new SnsAction(Topic.fromTopicArn(scope, 'PageTopic', pageTopicArn));
  }

  add({ id, metric, threshold, isBelow = false, about, paragraph, missing, periods = [3, 5] }: Watch): IAlarm {
    const { LESS_THAN_THRESHOLD, GREATER_THAN_OR_EQUAL_TO_THRESHOLD } = ComparisonOperator;
    const alarm = new Alarm(this.#scope, `${id}Alarm`, {
      metric,
      threshold,
      alarmDescription: describe(about, paragraph),
      comparisonOperator: isBelow ? LESS_THAN_THRESHOLD : GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      datapointsToAlarm: periods[0],
      evaluationPeriods: periods[1],
      treatMissingData: MISSING[missing],
    });
    tell(alarm, this.#tickets);
    return alarm;
  }

  /** Adds an alarm that wakes someone: any of `causes` is the case. */
  page(name: string, causes: readonly IAlarm[], about: string, paragraph: string): void {
    const alarm = new CompositeAlarm(this.#scope, name.replaceAll('-', ''), {
      compositeAlarmName: `${Stack.of(this.#scope).stackName}-${name}`,
      alarmDescription: describe(about, paragraph),
      alarmRule: AlarmRule.anyOf(...causes),
    });
    tell(alarm, this.#pages);
  }
}

function describe(about: string, paragraph: string): string {
  return `Stator: ${about}. docs/operations.md#${paragraph}`;
}

function tell(alarm: AlarmBase, action: SnsAction | undefined): void {
  if (action === undefined) return;
  alarm.addAlarmAction(action);
  alarm.addOkAction(action);
}
