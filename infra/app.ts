/**
 * The CDK app. `npx cdk synth` needs neither network, credentials nor Docker. Context (`-c name=value`):
 *
 * | Name | Default | Meaning |
 * |---|---|---|
 * | `stackName` | `Stator` | name of the stack |
 * | `retainTables` | `false` | keep the tables when the stack is deleted |
 * | `routerMode` | `round-robin`, `kv` with `routerImage` | `DYN_ROUTER_MODE` of the frontend |
 * | `natGateways` | `0` | NAT gateways for workers that need the internet |
 * | `nats` | `false` | add a NATS server for KV events and snapshots; needs a NAT gateway |
 * | `routerImage` | none | add resident routers that run this image of `stator`; needs `nats` |
 * | `functionUrl` | `false` | add a streaming URL of the function itself (callers sign with SigV4) |
 */
import { App, RemovalPolicy } from 'aws-cdk-lib';
import { Code } from 'aws-cdk-lib/aws-lambda';
import { bundleFunction } from './bundle.ts';
import { readSettings } from './settings.ts';
import { ServingStack } from './stacks/serving-stack.ts';

const app = new App();
const settings = readSettings((name) => app.node.tryGetContext(name) as unknown);
new ServingStack(app, settings.stackName, {
  httpFunctionCode: Code.fromAsset(bundleFunction().directory),
  removalPolicy: settings.retainTables ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY,
  ...(settings.routerMode === undefined ? {} : { routerMode: settings.routerMode }),
  ...(settings.routerImage === undefined ? {} : { routerImage: settings.routerImage }),
  natGateways: settings.natGateways,
  nats: settings.nats,
  functionUrl: settings.functionUrl,
  ...(settings.retainTables ? { terminationProtection: true } : {}),
});
app.synth();
