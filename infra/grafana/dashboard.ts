/** One chart of a dashboard. */
export interface Panel {
  readonly title: string;
  /** Unit of Grafana, such as `s` or `reqps`. */
  readonly unit: string;
  /** Queries of Prometheus, by the legend of their series. */
  readonly queries: Readonly<Record<string, string>>;
  /** @default 'timeseries' */
  readonly type?: 'timeseries' | 'stat';
  /** Columns of 24. @default 12 */
  readonly width?: number;
}

/** A label whose values the reader chooses. */
interface Variable {
  readonly name: string;
  readonly label: string;
  /** Metric that has the label. */
  readonly metric: string;
}

/** A dashboard of Grafana. */
export interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly variables: readonly Variable[];
  /** Panels in reading order. */
  readonly panels: readonly Panel[];
}

const DATASOURCE = { type: 'prometheus', uid: '$datasource' };
const COLUMNS = 24;
const WIDTH = 12;
const HEIGHTS = { timeseries: 8, stat: 4 } as const;

/** Returns the query for the growth of a counter in one second. */
export function rate(metric: string): string {
  return `rate(${metric}[$__rate_interval])`;
}

/** Returns the query for a quantile of a histogram by a label; of all series together if the label is empty. */
export function quantile(share: number, histogram: string, label: string, filter = ''): string {
  const by = label === '' ? 'le' : `le, ${label}`;
  return `histogram_quantile(${share}, sum by (${by}) (${rate(`${histogram}_bucket${filter}`)}))`;
}

/** Returns a dashboard as Grafana imports it. The reader chooses the Prometheus server. */
export function renderDashboard({ uid, title, variables, panels }: Dashboard): string {
  const datasource = { name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus' };
  const dashboard = {
    uid,
    title,
    schemaVersion: 39,
    timezone: 'browser',
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    templating: { list: [datasource, ...variables.map(variableOf)] },
    panels: placed(panels),
  };
  return `${JSON.stringify(dashboard, undefined, 2)}\n`;
}

/** Returns the names of the metrics that a dashboard reads, without the endings of histograms. */
export function metricsOf({ variables, panels }: Dashboard): readonly string[] {
  const texts = [...variables.map(({ metric }) => metric), ...panels.flatMap(({ queries }) => Object.values(queries))];
  const names = texts.join(' ').match(/\b(dynamo|stator)_\w+/g) ?? [];
  return [...new Set(names.map((name) => name.replace(/_(bucket|sum|count)$/, '')))].sort();
}

function variableOf({ name, label, metric }: Variable): object {
  return {
    name,
    label,
    type: 'query',
    datasource: DATASOURCE,
    query: { query: `label_values(${metric}, ${name})`, refId: name },
    refresh: 2, // at each change of the time range
    includeAll: true,
    multi: true,
    allValue: '.*',
    current: { text: 'All', value: '$__all' },
  };
}

/** Lays panels out in rows, from left to right. */
function placed(panels: readonly Panel[]): object[] {
  let [x, y, height] = [0, 0, 0];
  return panels.map(({ title, unit, queries, type = 'timeseries', width = WIDTH }, at) => {
    if (x + width > COLUMNS) [x, y, height] = [0, y + height, 0];
    const gridPos = { x, y, w: width, h: HEIGHTS[type] };
    x += width;
    height = Math.max(height, gridPos.h);
    const targets = Object.entries(queries).map(([legendFormat, expr], query) => ({
      refId: String.fromCharCode(65 + query),
      datasource: DATASOURCE,
      expr,
      legendFormat,
    }));
    const fieldConfig = { defaults: { unit, min: 0 }, overrides: [] };
    return { id: at + 1, type, title, datasource: DATASOURCE, gridPos, fieldConfig, targets };
  });
}
