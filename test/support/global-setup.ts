import { chromium } from './tools/chromium.ts';
import { dynoxide } from './tools/dynoxide.ts';
import { elasticmq } from './tools/elasticmq.ts';
import { etcd } from './tools/etcd.ts';
import { helm } from './tools/go-program.ts';
import { kserveGo } from './tools/kserve-go.ts';
import { lambdaRic } from './tools/lambda-ric.ts';
import { natsServer } from './tools/nats-server.ts';
import { nodes } from './tools/nodes.ts';
import { otelCollector } from './tools/otel-collector.ts';
import { promtool } from './tools/promtool.ts';
import { dynamo, envoy, kubernetesSchemas, moto, python, schemathesis, shellcheck, triton } from './tools/python.ts';
import type { Tool } from './tools/tool.ts';

interface MissingTool {
  readonly tool: Tool;
  readonly reason: string;
}

const TOOLS: readonly Tool[] = [
  dynoxide,
  python,
  schemathesis,
  shellcheck,
  lambdaRic,
  natsServer,
  nodes,
  moto,
  triton,
  dynamo,
  kserveGo,
  otelCollector,
  elasticmq,
  etcd,
  promtool,
  helm,
  kubernetesSchemas,
  envoy,
  chromium,
];

/**
 * Prepares what suites need beyond npm packages, and names it in environment variables, which the test processes
 * inherit. Everything is cached per user, so later runs only check. The end of the run names a missing toolchain; with
 * `CI=true` the run then fails.
 */
export async function setup(): Promise<() => void> {
  const outcomes = await Promise.all(TOOLS.map(prepare));
  const missing = outcomes.filter((outcome) => outcome !== undefined);
  if (missing.length > 0 && process.env.CI === 'true') {
    throw new Error(`CI=true and parts of the test set-up are missing:\n${describe(missing)}`);
  }
  return () => {
    if (missing.length > 0) console.log(`\nNot run, because a part is missing:\n${describe(missing)}\n`);
  };
}

async function prepare(tool: Tool): Promise<MissingTool | undefined> {
  if (process.env[tool.variable] || isReplacedByEndpoint(tool)) return undefined;
  try {
    process.env[tool.variable] = (await tool.findInstalled()) ?? (await installAloud(tool));
    return undefined;
  } catch (error) {
    return { tool, reason: error instanceof Error ? error.message : String(error) };
  }
}

/** Whether `STATOR_TEST_DYNAMODB=<url>` names an endpoint that replaces `tool`. */
function isReplacedByEndpoint(tool: Tool): boolean {
  return tool === dynoxide && Boolean(process.env.STATOR_TEST_DYNAMODB);
}

function installAloud(tool: Tool): Promise<string> {
  console.log(`Preparing ${tool.name} (once for this user)...`);
  return tool.install();
}

function describe(missing: readonly MissingTool[]): string {
  return missing.map(({ tool, reason }) => `  ${tool.neededBy}: no ${tool.name}. ${reason}`).join('\n');
}
