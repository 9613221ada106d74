# The operator's image: `docker build -t proxy-operator:0.1.0 --build-arg COMMIT=$(git rev-parse --short=12 HEAD) .`
# Both stages are of one Debian, so that the program finds the C library that it was linked with.
ARG DEBIAN=bookworm

FROM docker.io/library/rust:1.95-slim-${DEBIAN} AS build
# The kvm provider talks to hypervisors by libvirt's own client library.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libvirt-dev pkg-config \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY crds crds
COPY actors actors
COPY src src
# There is no repository in here to ask.
ARG COMMIT=unknown
RUN PROXY_OPERATOR_COMMIT=${COMMIT} cargo build --release --locked --bin proxy-operator

FROM docker.io/library/debian:${DEBIAN}-slim
# Probes verify certificates; without a store of CAs no HTTPS client can be made.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libvirt0 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/proxy-operator /usr/local/bin/proxy-operator
# glibc keeps a heap for each thread, up to eight a core, and gives little of them back.
ENV MALLOC_ARENA_MAX=2
# A number, so that the kubelet can tell that it is not root. Nothing is written but to /tmp.
USER 65532:65532
EXPOSE 8080 8081 8090
ENTRYPOINT ["proxy-operator"]
