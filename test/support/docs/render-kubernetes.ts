import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { renderGrafanaDashboard } from '../../../infra/grafana/overview.ts';
import { renderNatsHealth, renderNatsStart } from '../../../infra/nats-configuration.ts';

const FOLDER = 'deploy/kubernetes';
const CHART = join(FOLDER, 'chart');
/** Example values, each of which has its plain manifests. */
export const EXAMPLES = ['mocker', 'vllm', 'sglang', 'planner', 'models', 'multi-node'] as const;
/** Version to render for: a Helm that `go install` has built assumes 1.20. */
export const KUBERNETES = '1.37.0';
/** Size in the text, in the place of which the chart puts a value. */
const STORAGE = 424_242;

/** Files of the chart that the code of the product renders, by their path. */
export function chartFiles(): Readonly<Record<string, string>> {
  const start = renderNatsStart({ name: 'stator-nats', storageGb: STORAGE, folder: '/data' });
  return {
    [join(CHART, 'files/nats-start.sh')]:
      `${withTls(start).replace(String(STORAGE), '{{ .Values.nats.storageGb }}')}\n`,
    [join(CHART, 'files/dashboard.json')]: renderGrafanaDashboard(),
    [join(CHART, 'files/nats-health.sh')]: `${renderNatsHealth({})}\n`,
  };
}

/** Lets the server speak TLS if the values name its certificate. */
function withTls(start: string): string {
  const tls = 'tls { cert_file: "/etc/nats/tls.crt", key_file: "/etc/nats/tls.key" }';
  return start.replace('\njetstream', `\n{{- if .Values.nats.tls.secret }}\n${tls}\n{{- end }}\njetstream`);
}

/** Returns the manifests of the chart with arguments of `helm template`, in the namespace `serving`. */
export function renderChart(helm: string, ...args: readonly string[]): string {
  const all = [
    'template',
    'stator',
    CHART,
    '--namespace',
    'serving',
    '--kube-version',
    KUBERNETES,
    '--include-crds',
    ...args,
  ];
  return execFileSync(helm, all, { encoding: 'utf8', stdio: 'pipe' });
}

/** Returns the plain manifests, by their path. */
export function plainManifests(helm: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    EXAMPLES.map((name) => {
      const head = `# Rendered from the chart with values/${name}.yaml by npm run kubernetes. Do not edit.\n`;
      const text = renderChart(helm, '--values', join(FOLDER, 'values', `${name}.yaml`), '--no-hooks');
      return [join(FOLDER, 'manifests', `${name}.yaml`), head + text];
    }),
  );
}

/** Writes all rendered files. */
export function writeRendered(helm: string): void {
  for (const [path, text] of Object.entries(chartFiles())) writeFileSync(path, text);
  for (const [path, text] of Object.entries(plainManifests(helm))) writeFileSync(path, text);
}
