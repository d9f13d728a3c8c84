import { Annotations } from 'aws-cdk-lib';
import { CfnBudget } from 'aws-cdk-lib/aws-budgets';
import { CfnAnomalyMonitor, CfnAnomalySubscription } from 'aws-cdk-lib/aws-ce';
import { Construct } from 'constructs';
import type { Settings } from '../settings/index.ts';
import { DEPLOYMENT_TAG } from './tags.ts';

interface SpendingProps {
  /** Name of the deployment: its tag tells its cost from others. */
  readonly deployment: string;
  readonly budgetUsd: number;
  readonly topicArn: string;
}

/** Shares of the month's budget at which the topic hears, in per cent. */
const STEPS = [50, 80, 100] as const;
/** US dollars above what Cost Anomaly Detection expects of a day, at which the topic hears. */
const ANOMALY_USD_MIN = 20;

/**
 * Tells the topic what the deployment has cost this month: at 50, 80 and 100 % of its budget, when the month is
 * expected to end above it, and when a day is unlike others. It stops nothing.
 */
class Spending extends Construct {
  constructor(scope: Construct, id: string, { deployment, budgetUsd, topicArn }: SpendingProps) {
    super(scope, id);
    const subscribers = [{ subscriptionType: 'SNS', address: topicArn }];
    const told = (notificationType: 'ACTUAL' | 'FORECASTED', threshold: number) => ({
      notification: { notificationType, comparisonOperator: 'GREATER_THAN', threshold, thresholdType: 'PERCENTAGE' },
      subscribers,
    });
    new CfnBudget(this, 'Budget', {
      budget: {
        budgetType: 'COST',
        timeUnit: 'MONTHLY',
        budgetLimit: { amount: budgetUsd, unit: 'USD' },
        costFilters: { TagKeyValue: [`user:${DEPLOYMENT_TAG}$${deployment}`] },
      },
      notificationsWithSubscribers: [...STEPS.map((step) => told('ACTUAL', step)), told('FORECASTED', 100)],
    });
    const monitor = new CfnAnomalyMonitor(this, 'Monitor', {
      monitorName: `${deployment} (Stator)`,
      monitorType: 'CUSTOM',
      monitorSpecification: JSON.stringify({
        Tags: { Key: DEPLOYMENT_TAG, Values: [deployment], MatchOptions: ['EQUALS'] },
      }),
    });
    new CfnAnomalySubscription(this, 'Anomalies', {
      subscriptionName: `${deployment} (Stator)`,
      frequency: 'IMMEDIATE', // the only one that SNS takes
      monitorArnList: [monitor.attrMonitorArn],
      subscribers: [{ type: 'SNS', address: topicArn }],
      thresholdExpression: JSON.stringify({
        Dimensions: {
          Key: 'ANOMALY_TOTAL_IMPACT_ABSOLUTE',
          MatchOptions: ['GREATER_THAN_OR_EQUAL'],
          Values: [String(ANOMALY_USD_MIN)],
        },
      }),
    });
  }
}

/** Watches what the deployment costs, if the file says what it may. */
export function addSpending(scope: Construct, { name, alarms: { budgetUsd, topicArn } }: Settings): void {
  if (budgetUsd === undefined || topicArn === undefined) return;
  new Spending(scope, 'Spending', { deployment: name, budgetUsd, topicArn });
}

/** Warns if no one would hear that a deployment on which clients depend costs too much. */
export function warnOfSpending(scope: Construct, { alarms: { budgetUsd } }: Settings): void {
  if (budgetUsd !== undefined) return;
  const why =
    'no budget reports what the deployment costs: set alarms.budgetUsd to US$ a month (stator deploy estimate says what to expect)';
  Annotations.of(scope).addWarningV2('stator:alarms.budgetUsd', why);
}
