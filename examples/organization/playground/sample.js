import { prepare, send } from "./call.js";

const LIST_PROJECTS = "organization.v1.ProjectService/ListProjects";

/** The sample that serves this page, and its two users. Their tokens may be here because the users are fictitious. */
export class Sample {
  #tokens;

  constructor({ cluster_id, tokens }) {
    this.cluster = cluster_id;
    this.#tokens = tokens;
  }

  /** Fetches the users, or throws. */
  static async meet() {
    const answer = await fetch("/playground/users.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(`/playground/users.json: ${answer.status}`);
    return new Sample(await answer.json());
  }

  /** Returns a call of a user, before it is sent. */
  prepare(user, procedure, message, headers = {}) {
    return prepare({ procedure, message, headers, token: this.#tokens[user] });
  }

  /** Returns the ids of the projects with this label; null if the call fails. */
  async projects(user, label) {
    const list = this.prepare(user, LIST_PROJECTS, {});
    await send(list);
    const { response } = list;
    if (response?.status !== 200 || !response.json) return null;
    const projects = response.json.projects ?? [];
    return projects.filter(({ labels }) => labels?.playground === label).map(({ id }) => id);
  }
}
