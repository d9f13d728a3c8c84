import { CfnWebACL, CfnWebACLAssociation } from 'aws-cdk-lib/aws-wafv2';
import { Construct } from 'constructs';
import { codeRow, openAiErrorBody, ServeError } from '../../shared/errors/index.ts';

interface FirewallProps {
  /** Protected resource: a stage of an API, or a load balancer. */
  readonly resourceArn: string;
  /** Requests of one address in five minutes. @default any number */
  readonly requestsPerAddress?: number | undefined;
  /**
   * Requests a second of all callers, over a minute, if the target has no such limit itself. @default any number
   */
  readonly requestsPerSecond?: number | undefined;
  /**
   * Whether refusals answer as the API does: 429 that says when to try again. @default 403, which the resource answers
   * in its own words
   */
  readonly answers?: boolean;
}

const VISIBLE = { cloudWatchMetricsEnabled: true, sampledRequestsEnabled: false };
const BODY = 'too-many';
/** Least limit of requests that a rule may have. */
const LIMIT_MIN = 10;
/** There is no statement for every request. */
const ANY_REQUEST: CfnWebACL.StatementProperty = {
  sizeConstraintStatement: {
    fieldToMatch: { uriPath: {} },
    comparisonOperator: 'GE',
    size: 0,
    textTransformations: [{ priority: 0, type: 'NONE' }],
  },
};

/** Blocks only clients that ask too often: prompts look like any attack that a rule of thumb knows. */
export class Firewall extends Construct {
  constructor(scope: Construct, id: string, props: FirewallProps) {
    super(scope, id);
    const { requestsPerAddress, requestsPerSecond, answers = false } = props;
    const rules: [name: string, statement: CfnWebACL.RateBasedStatementProperty][] = [];
    if (requestsPerAddress !== undefined) {
      const limit = { limit: requestsPerAddress, evaluationWindowSec: 300 };
      rules.push(['requests-per-address', { aggregateKeyType: 'IP', ...limit }]);
    }
    if (requestsPerSecond !== undefined) {
      const limit = { limit: Math.max(LIMIT_MIN, requestsPerSecond * 60), evaluationWindowSec: 60 };
      rules.push(['requests-per-minute', { aggregateKeyType: 'CONSTANT', ...limit, scopeDownStatement: ANY_REQUEST }]);
    }
    const { customResponseBodies, block } = answers ? tooMany() : { customResponseBodies: undefined, block: {} };
    const acl = new CfnWebACL(this, 'List', {
      scope: 'REGIONAL',
      defaultAction: { allow: {} },
      visibilityConfig: { ...VISIBLE, metricName: 'stator' },
      ...(customResponseBodies === undefined ? {} : { customResponseBodies }),
      rules: rules.map(([name, rateBasedStatement], priority) => ({
        name,
        priority,
        action: { block },
        statement: { rateBasedStatement },
        visibilityConfig: { ...VISIBLE, metricName: name },
      })),
    });
    new CfnWebACLAssociation(this, 'Guarding', { resourceArn: props.resourceArn, webAclArn: acl.attrArn });
  }
}

/** Response that clients of OpenAI read, and that its SDK heeds. */
function tooMany() {
  const code = 'rate_limit_exceeded';
  const body = openAiErrorBody(new ServeError(code, 'too many requests: this endpoint is at its rate limit'));
  const block: CfnWebACL.BlockActionProperty = {
    customResponse: {
      responseCode: codeRow(code).status,
      customResponseBodyKey: BODY,
      responseHeaders: [{ name: 'Retry-After', value: '1' }],
    },
  };
  return {
    customResponseBodies: { [BODY]: { contentType: 'APPLICATION_JSON', content: JSON.stringify(body) } },
    block,
  };
}
