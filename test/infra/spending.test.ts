import { CfnResource, Stack, TagManager } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import type { IConstruct } from 'constructs';
import { describe, expect, it } from 'vitest';
import { readSettings } from '../../infra/settings/index.ts';
import { quotasNeeded } from '../../shared/commands/deploy-needs.ts';
import { devStack, devTemplate, openApp, productionStacks, productionTemplates, type Resource } from './templates.ts';

const topicArn = 'arn:aws:sns:eu-west-1:123456789012:oncall';

describe('the ceiling on what a deployment costs', () => {
  it('is 200 streams at a time in production, and the account in dev, unless the file says otherwise', () => {
    const reserved = (config = {}) => {
      const functions = productionTemplates(config).Edge?.findResources('AWS::Lambda::Function') ?? {};
      return Object.values(functions)
        .filter(({ Properties }) => Properties.Handler === 'index.handler' && Properties.MemorySize === 1769)
        .map(({ Properties }) => Properties.ReservedConcurrentExecutions as unknown);
    };
    expect(reserved()).toEqual([200]);
    expect(reserved({ edges: { function: { concurrencyMax: 50 } } })).toEqual([50]);
    expect(reserved({ edges: { function: { concurrencyMax: 'account' } } })).toEqual([undefined]);
    expect(JSON.stringify(devTemplate().toJSON())).not.toContain('ReservedConcurrentExecutions');
  });

  it('is 8,192 tokens for a request to the function that names no number, unless the file says otherwise', () => {
    const tokens = (template: Template | undefined) =>
      JSON.stringify(template?.toJSON()).match(/"STATOR_MAX_TOKENS_DEFAULT":"[^"]*"/g);
    const edgeOf = (maxTokensFunction?: number) =>
      tokens(productionTemplates(maxTokensFunction === undefined ? {} : { limits: { maxTokensFunction } }).Edge);
    expect(edgeOf()).toEqual(['"STATOR_MAX_TOKENS_DEFAULT":"8192"']); // none of the container edge, which sees clients leave
    expect(tokens(devTemplate())).toEqual(['"STATOR_MAX_TOKENS_DEFAULT":"8192"']);
    expect(edgeOf(500)).toEqual(['"STATOR_MAX_TOKENS_DEFAULT":"500"']);
    expect(edgeOf(0)).toBeNull();
  });

  it('is printed before a deployment to an account that is too small', () => {
    const templates = Object.values(productionTemplates()).map((template) => template.toJSON());
    expect(quotasNeeded(templates).find(({ service }) => service === 'lambda')).toMatchObject({ needed: 300 });
  });

  it.each([0, 1.5, 'all'])('is not %j', (concurrencyMax) => {
    expect(() => readSettings({ edges: { function: { concurrencyMax } } }, 'file')).toThrow(
      'file: edges.function.concurrencyMax: must be a number of requests from 1 to 100000, or account',
    );
  });

  it('has a budget that tells the topic of alarms, and of days that are unlike others', () => {
    const template = productionTemplates({ alarms: { topicArn, budgetUsd: 500 } }).Edge!;
    const [budget] = Object.values(template.findResources('AWS::Budgets::Budget')) as Resource[];
    expect(budget?.Properties.Budget).toMatchObject({
      BudgetLimit: { Amount: 500, Unit: 'USD' },
      TimeUnit: 'MONTHLY',
      CostFilters: { TagKeyValue: ['user:stator:deployment$Stator'] },
    });
    const told = budget?.Properties.NotificationsWithSubscribers as {
      Notification: { Threshold: number; NotificationType: string };
      Subscribers: { Address: string }[];
    }[];
    const actual = told.filter(({ Notification }) => Notification.NotificationType === 'ACTUAL');
    expect(actual.map(({ Notification }) => Notification.Threshold)).toEqual([50, 80, 100]);
    for (const { Subscribers } of told) expect(Subscribers).toEqual([{ SubscriptionType: 'SNS', Address: topicArn }]);
    template.hasResourceProperties('AWS::CE::AnomalySubscription', {
      Frequency: 'IMMEDIATE',
      Subscribers: [{ Type: 'SNS', Address: topicArn }],
    });
    devTemplate().resourceCountIs('AWS::Budgets::Budget', 0);
    expect(() => readSettings({ alarms: { budgetUsd: 5 } }, 'file')).toThrow(
      'file: alarms.budgetUsd: needs alarms.topicArn, the topic that gets the messages',
    );
  });
});

describe('costs that no client would report: production', () => {
  const edgeOf = (alarms: object) => productionStacks(openApp(), { alarms }).node.findChild('Edge') as Stack;

  it.each([{}, { topicArn }])('is warned of where no budget is set: %j', (alarms) => {
    Annotations.fromStack(edgeOf(alarms)).hasWarning(
      '*',
      Match.stringLikeRegexp('^no budget reports .* alarms.budgetUsd'),
    );
  });

  it('is no warning with a budget, and none of dev', () => {
    for (const stack of [edgeOf({ topicArn, budgetUsd: 500 }), devStack(openApp())])
      Annotations.fromStack(stack).hasNoWarning('*', Match.stringLikeRegexp('budgetUsd'));
  });
});

describe('the tags of a deployment', () => {
  it.each([
    ['dev', () => [devStack(openApp(), { alarms: { topicArn, budgetUsd: 5 } })]],
    ['production', () => productionStacks(openApp(), { alarms: { topicArn, budgetUsd: 5 } }).node.children],
  ] as const)('are on everything that takes tags: %s', (environment, stacksOf) => {
    const constructs: readonly IConstruct[] = stacksOf();
    for (const stack of constructs.filter((each) => Stack.isStack(each))) {
      const { Resources } = Template.fromStack(stack).toJSON() as { Resources: Record<string, Resource> };
      const taggable = stack.node
        .findAll()
        .flatMap((each) => (CfnResource.isCfnResource(each) && TagManager.of(each) !== undefined ? [each] : []));
      expect(taggable.length).toBeGreaterThan(4);
      for (const each of taggable) {
        const { Type, Properties } = Resources[stack.resolve(each.logicalId) as string]!;
        const text = JSON.stringify(Properties);
        expect({ Type, isTagged: /stator:deployment.{1,12}Stator/.test(text) }).toEqual({ Type, isTagged: true });
        expect(text).toMatch(new RegExp(`stator:env.{1,12}${environment}`));
        expect(text).toMatch(/stator:stack.{1,12}Stator/);
      }
    }
  });

  it('are on tasks as on their services, so that their cost has an owner', () => {
    for (const template of [devTemplate(), ...Object.values(productionTemplates())]) {
      for (const { Properties } of Object.values(template.findResources('AWS::ECS::Service'))) {
        expect(Properties.PropagateTags).toBe('SERVICE');
      }
    }
  });
});
